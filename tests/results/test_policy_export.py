from dataclasses import replace

import pytest
import torch
from conftest import tiny_config

from gmi_drl.algo.agent import make_agent
from gmi_drl.cli import export as command
from gmi_drl.config.learners import LEARNERS, DQNConfig, PPOConfig, RslRlConfig, SACConfig
from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.errors import MachineError
from gmi_drl.registry import class_at
from gmi_drl.results import export as writing
from gmi_drl.results.export import export
from gmi_drl.results.policy_module import PolicyModule, module_of
from gmi_drl.roles.serving.player import Player
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.observations import pack
from gmi_drl.workload.spaces import Action, Observation, Part, categorical, continuous, image, vector

CPU, FACTS = torch.device("cpu"), {"task": "toy"}
CAMERA = Part("camera", (1, 36, 36), "image")
KINDS = {
    "vector": (vector(5), continuous(2)),
    "two vectors, two choices": (Observation((Part("a", (3,)), Part("b", (4,)))), categorical(3, 5)),
    "image": (image(2, 36, 36), categorical(4)),
    "two images": (Observation((CAMERA, replace(CAMERA, name="other"))), continuous(2)),
    "all": (Observation((CAMERA, Part("v", (5,)), Part("m", (4,), "mask"))), Action(2, (4,))),
}


def agent_of(observation, action, **settings):
    """Its scaling is not that of the start."""
    spec = replace(TASK_SPECS["ant"], observation=observation, action=action)
    agent = make_agent(spec, PPOConfig(hidden=(8,), **settings), CPU, seed=0)
    agent.normaliser.mean.normal_()
    agent.normaliser.scale.uniform_(0.5, 2)
    return agent


def random_parts(observation, n):
    def one(part):
        most = 256 if part.kind == "image" else 2
        return torch.randn(n, *part.shape) if part.kind == "vector" else torch.randint(0, most, (n, *part.shape)).byte()

    return {part.name: one(part) for part in observation.parts}


def onnx_of(path):
    """Runs a file as ONNX's own reference does, by no code of ours."""
    reference = pytest.importorskip("onnx.reference", reason="needs the extra [export]").ReferenceEvaluator(str(path))
    return lambda **inputs: [
        torch.from_numpy(out) for out in reference.run(None, {k: v.numpy() for k, v in inputs.items()})
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_module_acts_as_the_agent_by_parts(kind):
    observation, action = KINDS[kind]
    agent, parts = agent_of(observation, action), random_parts(observation, 7)
    assert torch.allclose(PolicyModule(agent)(*parts.values()), agent.act(pack(parts, observation)), atol=1e-6)


@pytest.mark.parametrize("form", ["onnx", "torch"])
def test_a_policy_that_learnt_in_bfloat16_is_written_in_float32(tmp_path, form):
    observation, action = KINDS["vector"]
    agent, parts = agent_of(observation, action, bf16=True), random_parts(observation, 7)
    path = tmp_path / "policy"
    export(PolicyModule(agent), path, form, FACTS)
    result = onnx_of(path)(**parts)[0] if form == "onnx" else torch.export.load(path).module()(*parts.values())
    rounded = agent.act(pack(parts, observation))
    agent.policy.bf16 = False
    expected = agent.act(pack(parts, observation))
    assert torch.allclose(result, expected, atol=1e-6) and not torch.allclose(rounded, expected, atol=1e-6)


def test_a_file_of_onnx_takes_all_kinds_of_parts_and_any_number(tmp_path):
    observation, action = KINDS["all"]
    agent = agent_of(observation, action)
    exported = export(PolicyModule(agent), tmp_path / "a.onnx", "onnx", FACTS)
    assert [str(port) for port in exported.inputs] == [
        "camera: uint8 [N, 1, 36, 36]",
        "v: float32 [N, 5]",
        "m: uint8 [N, 4]",
    ]
    assert [str(port) for port in exported.outputs] == ["action: float32 [N, 3]"]
    run = onnx_of(tmp_path / "a.onnx")
    for n in (1, 5):
        parts = random_parts(observation, n)
        (action,) = run(**parts)
        assert torch.allclose(action, agent.act(pack(parts, observation)), atol=1e-5)
    assert str(tmp_path.anchor + "home").encode() not in (tmp_path / "a.onnx").read_bytes()


def test_a_memory_goes_in_and_comes_out(tmp_path):
    spec = replace(TASK_SPECS["ant"], observation=vector(5), action=continuous(2))
    agent = make_agent(spec, PPOConfig(hidden=(8,), memory="lstm", memory_size=6), CPU, seed=0)
    exported = export(PolicyModule(agent), tmp_path / "a.onnx", "onnx", FACTS)
    assert [str(port) for port in exported.outputs] == ["action: float32 [N, 2]", "next_state: float32 [N, 24]"]
    run, state, kept = onnx_of(tmp_path / "a.onnx"), torch.zeros(3, 24), agent.empty_state(3)
    for _ in range(4):
        parts = random_parts(spec.observation, 3)
        action, state = run(**parts, state=state)
        assert torch.allclose(action, agent.act(pack(parts, spec.observation), state=kept), atol=1e-5)


def test_parts_may_be_called_as_the_action_and_the_memory(tmp_path):
    seen = Observation((Part("state", (3,)), Part("action", (2,))))
    spec = replace(TASK_SPECS["ant"], observation=seen, action=continuous(2))
    agent = make_agent(spec, PPOConfig(hidden=(8,), memory="gru", memory_size=6), CPU, seed=0)
    exported = export(PolicyModule(agent), tmp_path / "a.onnx", "onnx", FACTS)
    assert [port.name for port in exported.inputs] == ["state", "action", "state_"]
    assert [port.name for port in exported.outputs] == ["action_", "next_state"]
    parts, memory = random_parts(seen, 3), torch.randn(3, 12)
    action, _ = onnx_of(tmp_path / "a.onnx")(**parts, state_=memory)
    assert torch.allclose(action, agent.act(pack(parts, seen), state=memory), atol=1e-5)


@pytest.mark.parametrize(
    ("config", "action"), [(DQNConfig(hidden=(8,)), categorical(3)), (SACConfig(hidden=(8,)), continuous(2))]
)
def test_policies_that_learnt_from_replay_give_their_best_actions(tmp_path, config, action):
    spec = replace(TASK_SPECS["ant"], observation=vector(5), action=action)
    agent = class_at(LEARNERS.find(config.kind).agent)(spec, config, CPU, seed=0)
    export(PolicyModule(agent), tmp_path / "a.onnx", "onnx", FACTS)
    obs = torch.randn(7, 5)
    (name,) = [part.name for part in spec.observation.parts]
    assert torch.allclose(onnx_of(tmp_path / "a.onnx")(**{name: obs})[0], agent.act(obs), atol=1e-5)


def test_an_episode_by_onnx_is_that_of_play(tmp_path):
    task = make("ball_balance", num_env=2, seed=3)
    agent = agent_of(task.spec.observation, task.spec.action)
    player = Player(task, agent)
    export(module_of(player), tmp_path / "a.onnx", "onnx", FACTS)
    run, (name,) = onnx_of(tmp_path / "a.onnx"), [part.name for part in task.spec.observation.parts]
    for _ in range(task.spec.episode_steps):
        assert torch.allclose(run(**{name: task.obs})[0], player.actions(), atol=1e-5)
        player.step()
    assert player.finished


@pytest.mark.parametrize("is_recurrent", [False, True])
def test_policies_of_rsl_rl_keep_their_scaling_bound_and_memory(tmp_path, is_recurrent):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    from gmi_drl.roles.rsl_rl.player import RslRlPlayer

    runner = runner_config(PPOConfig(horizon=4, epochs=1, minibatches=1, hidden=(8,))) | {"clip_actions": 0.01}
    if is_recurrent:
        memory = {"class_name": "RNNModel", "rnn_type": "lstm", "rnn_hidden_dim": 6, "rnn_num_layers": 1}
        runner |= {name: runner[name] | memory for name in ("actor", "critic")}
    config = tiny_config(learner=RslRlConfig(runner=runner))
    task = make("ball_balance", num_env=1, seed=3)
    player = RslRlPlayer(task, RunFolder(tmp_path), config, seed=0, stochastic=False, untrained=True)
    exported = export(module_of(player), tmp_path / "a.onnx", "onnx", FACTS)
    run = onnx_of(tmp_path / "a.onnx")
    memory = {port.name: torch.zeros(*port.shape) for port in exported.inputs[1:]}
    assert len(memory) == 2 * is_recurrent
    for _ in range(5):
        action, *after = run(obs=task.obs, **memory)
        memory = dict(zip(memory, after, strict=True))
        assert torch.allclose(action, player.actions(), atol=1e-5) and action.abs().max() <= 0.01
        player.step()


def test_the_command_writes_a_program_of_torch(command_line, served_run, tmp_path):
    code, out, err = command_line("export", served_run.path, "--to", "torch", "-o", "a.pt2")
    assert code == 0 and "Wrote a.pt2" in err and "float32  [N, " in out
    program = torch.export.load(tmp_path / "a.pt2").module()
    task = make("ball_balance", num_env=3)
    from gmi_drl.roles.serving.player import load_agent

    assert torch.allclose(program(task.obs), load_agent(served_run, task.spec, tiny_config()).act(task.obs), atol=1e-6)


def test_what_is_missing_is_told_before_anything_is_made(command_line, served_run, monkeypatch):
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    monkeypatch.setattr(command, "open_task", lambda *arguments: pytest.fail("too early"))
    code, _, err = command_line("export", served_run.path)
    assert code == MachineError.exit_code and "pip install 'gmi-drl[export]'" in err


def test_a_folder_that_is_no_run_is_exit_2(command_line, tmp_path):
    code, _, err = command_line("export", tmp_path)
    assert code == 2 and "is not a run folder" in err

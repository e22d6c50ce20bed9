"""Worlds on other GMIs are those worlds, side by side."""

import threading

import pytest
import torch
from apart import HANG_S, Mail, mail_of, remote

from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.errors import PeerSilentError, UsageError
from gmi_drl.roles.peer import Peer
from gmi_drl.tasks import make
from gmi_drl.tasks.terms import terms_of
from gmi_drl.templates.dedicated import step_bytes
from gmi_drl.workload import TASK_SPECS

SIZES = (3, 5)
STEPS = 40


def worlds(**more):
    return [make("ball_balance", num_env=size, seed=seed, **more) for seed, size in enumerate(SIZES)]


def actions(task, steps=STEPS):
    generator = torch.Generator().manual_seed(7)
    return [2 * torch.rand(task.num_env, task.spec.action.size, generator=generator) - 1 for _ in range(steps)]


def test_every_step_is_that_of_the_tasks_themselves():
    own = worlds()
    with remote(*worlds()) as (task, _):
        assert (task.num_env, task.spec, task.counts_by_itself) == (8, TASK_SPECS["ball_balance"], False)
        assert torch.equal(task.obs, torch.cat([one.obs for one in own]))
        lengths = task.spec.episode_steps - torch.arange(1, 9)
        for environments_of, part in zip((task, *own), (lengths, *torch.split(lengths, SIZES)), strict=True):
            environments_of.episode_length.copy_(part)
        ended = 0
        for action in actions(task):
            told = [one.step(part) for one, part in zip(own, torch.split(action, SIZES), strict=True)]
            obs, reward, terminated, truncated, info = task.step(action)
            whole = [torch.cat(parts) for parts in zip(*(one[:4] for one in told), strict=True)]
            assert all(map(torch.equal, (obs, reward, terminated, truncated), whole)) and torch.equal(task.obs, obs)
            for name in ("bad", "valid"):
                assert torch.equal(info[name], torch.cat([one[4][name] for one in told]))
            over = terminated | truncated
            final_obs = torch.cat([one[4]["final_obs"] for one in told])
            assert torch.equal(info["final_obs"][over], final_obs[over])
            assert torch.equal(info["final_obs"][~over], obs[~over])
            assert torch.equal(task.episode_length, torch.cat([one.episode_length for one in own]))
            ended += int(over.sum())
        assert 8 <= ended < STEPS, "some steps end an episode, and some end none"


def test_staggered_episodes_are_staggered_on_the_simulators():
    tasks = worlds()
    with remote(*tasks) as (task, _):
        late = TASK_SPECS["ball_balance"].episode_steps - 1
        task.episode_length.copy_(torch.tensor([late, 0, 0, 0, 0, 0, 0, late]))
        first, second = actions(task, 2)
        *_, truncated, _ = task.step(first)
        assert truncated.nonzero().flatten().tolist() == [0, 7]
        task.episode_length.fill_(late)  # too late: only simulators count now
        *_, truncated, _ = task.step(second)
        assert not truncated.any()


def test_the_state_of_all_simulators_is_saved_and_restored():
    with remote(*worlds()) as (task, _):
        for action in actions(task, 5):
            task.step(action)
        state = task.state_dict()
        expected = [task.step(action)[0] for action in actions(task)]
    with remote(*(make("ball_balance", num_env=size, seed=99) for size in SIZES)) as (task, _):
        task.load_state_dict(state)
        assert all(map(torch.equal, expected, [task.step(action)[0] for action in actions(task)]))
        task.reset()
        assert not task.episode_length.any() and not torch.equal(task.obs, expected[-1])


def test_terms_of_the_reward_are_summed_over_all_simulators():
    with remote(*worlds(tells_terms=True)) as (task, _):
        reward = sum(task.step(action)[1].double().sum() for action in actions(task, 6))
        terms = terms_of(task)
        assert "terms" not in terms.names and terms.pop_sums().sum().item() == pytest.approx(reward.item(), rel=1e-5)
        assert not terms.pop_sums().any()
    with remote(*worlds()) as (task, _):
        assert terms_of(task) is None


def test_a_step_carries_the_bytes_that_the_template_predicts():
    with remote(make("ant", num_env=4)) as (task, mails):
        task.step(torch.zeros(4, 8))  # the first one tells of episodes, too
        before = sum(mail.nbytes for mail in mails)
        *_, terminated, truncated, _ = task.step(torch.zeros(4, 8))
        assert not (terminated | truncated).any()
        assert sum(mail.nbytes for mail in mails) - before == 4 * step_bytes(TASK_SPECS["ant"])


def test_simulated_seconds_are_reported_and_actions_of_another_shape_refused():
    with remote(*worlds()) as (task, _):
        assert task.simulated_s == 0
        task.step(actions(task, 1)[0])
        assert task.simulated_s > 0
        with pytest.raises(UsageError, match=r"shape \(7, "):
            task.step(torch.zeros(7, task.spec.action.size))


def test_a_peer_that_waits_gets_more_time_and_a_silent_one_is_named():
    mailboxes = create_mailboxes(range(2))
    mail, other = (Mail(mailboxes, gmi_id, hang_s=0.2) for gmi_id in range(2))
    with pytest.raises(PeerSilentError, match=r"GMI 1 .* has not sent a message"):
        Peer(mail, 1).receive()
    patient = Peer(mail, 1, patience=HANG_S / 0.2)
    threading.Timer(0.6, lambda: other.send("here", 0)).start()
    assert patient.receive() == "here"
    for end in (mail, other):
        end.messages.close()
    mailboxes.close()


def test_mail_is_counted_by_its_tensors():
    with mail_of(2) as (mail, other):
        mail.send(("step", {"obs": torch.zeros(3), "more": [torch.zeros(2, dtype=torch.bool)]}), 1)
        assert mail.nbytes == 14 and other.nbytes == 0
        assert other.recv(0)[0] == "step"


def test_rewards_and_ends_of_the_simulator_itself_are_told_too():
    def own(task):
        step = task.step

        def stepped(action):
            obs, reward, terminated, truncated, info = step(action)
            return obs, reward.sign(), terminated, truncated, info | {"own_reward": reward, "own_end": terminated}

        task.step = stepped
        return task

    tasks, others = [own(task) for task in worlds()], worlds()
    with remote(*tasks) as (task, _):
        action = actions(task, 1)[0]
        _, reward, terminated, _, info = task.step(action)
        plain = torch.cat([one.step(part)[1] for one, part in zip(others, torch.split(action, SIZES), strict=True)])
        assert torch.equal(info["own_reward"], plain) and torch.equal(reward, plain.sign())
        assert torch.equal(info["own_end"], terminated) and info["own_end"].dtype == torch.bool

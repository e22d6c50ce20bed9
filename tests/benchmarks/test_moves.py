"""Results whose code has only moved since they were measured are not stale: a repository whose files move."""

import subprocess

import pytest

from gmi_drl.benchmarks.moves import TABLE, Moves, module_of, moves_since
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.benchmarks.stale import stale
from gmi_drl.errors import MachineError
from tests.benchmarks.toy import toy_case, toy_machine

MODULE = {"toy": ("gmi_drl/",)}
FILES = {
    "gmi_drl/__init__.py": "",
    "gmi_drl/toy.py": """
from gmi_drl import physics
from gmi_drl.spots import Spot

def side(spot: "Spot") -> Spot:
    from gmi_drl.units import per_s
    return Spot(per_s(physics.step()))
""",
    "gmi_drl/physics.py": """
LIMIT = 3
NAME = "a"

def step():
    return _more(LIMIT)

def _more(physics):
    return physics
""",
    "gmi_drl/spots.py": """
class Spot:
    rank = 1

ROLE = "gmi_drl.role:Role"
CHILD = ["python", "-m", "gmi_drl.role"]
""",
    "gmi_drl/role.py": "class Role:\n    pass\n",
    "gmi_drl/units.py": "def per_s(value):\n    return value\n",
}
HAND_ON = """
_LAZY = {"Spot": "gmi_drl.spots.rendezvous"}

def __getattr__(name):
    return name
"""
DIVIDED = """
from gmi_drl.parts import more

LIMIT = 3
NAME = "a"

def step():
    return more(LIMIT)
"""


def git(root, *arguments):
    own = ["-c", "user.name=a", "-c", "user.email=a@b"]
    run = subprocess.run(["git", "-C", root, *own, *arguments], capture_output=True, text=True, check=True)
    return run.stdout.strip()


class Checkout:
    """A repository, and a result that was measured at its first commit."""

    def __init__(self, root):
        self.root = root
        git(root, "init", "-q")
        self.result = run_case(toy_case(), repeats=1)
        self.write(FILES)
        self.first = self.commit()

    def write(self, files):
        for name, text in files.items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def commit(self):
        git(self.root, "add", ".")
        git(self.root, "commit", "-qm", "so")
        return git(self.root, "rev-parse", "--short", "HEAD")

    def move(self, old, new, **words):
        """Move a file, tell the table, replace words in all files."""
        (self.root / new).parent.mkdir(exist_ok=True)
        (self.root / old).rename(self.root / new)
        self.replace({module_of(old): module_of(new)} | words)
        self.tell(f"{old} {new}")

    def replace(self, words):
        for file in self.root.rglob("*.py"):
            text = file.read_text()
            for old, new in words.items():
                text = text.replace(old, new)
            file.write_text(text)

    def tell(self, *lines):
        with (self.root / TABLE).open("a") if (self.root / TABLE).exists() else self._table() as table:
            table.writelines(f"{line}\n" for line in lines)

    def _table(self):
        (self.root / TABLE).parent.mkdir(exist_ok=True)
        return (self.root / TABLE).open("w")

    def changed(self, commit=None):
        """The file for which the result is stale; None if it is not."""
        result = self.result.model_copy(update={"machine": toy_machine(commit=commit or self.first)})
        reasons = stale({"toy": result}, self.root, MODULE)
        return reasons["toy"].partition("since then ")[2].removesuffix(" has changed") if reasons else None


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_a_moved_file_makes_nothing_stale_if_it_is_in_the_table(checkout):
    (checkout.root / "gmi_drl/role.py").rename(checkout.root / "gmi_drl/part.py")
    checkout.replace({"gmi_drl.role": "gmi_drl.part"})
    assert checkout.changed() == "gmi_drl/part.py"
    checkout.tell("# a comment", "", "gmi_drl/role.py  gmi_drl/part.py")
    assert checkout.changed() is None, "module:Class and python -m follow"


def test_imports_texts_and_names_of_modules_follow_a_move_and_a_second_one(checkout):
    checkout.move("gmi_drl/physics.py", "gmi_drl/sim/engine.py", **{"import physics": "import engine"})
    checkout.replace({"from gmi_drl import engine": "from gmi_drl.sim import engine", "physics.step": "engine.step"})
    checkout.write({"gmi_drl/sim/__init__.py": '"""A room."""\n'})
    assert checkout.changed() is None
    second = checkout.commit()
    checkout.move("gmi_drl/sim/engine.py", "gmi_drl/engine.py")
    checkout.replace({"from gmi_drl.sim import": "from gmi_drl import"})
    assert checkout.changed() is None, "since before both"
    assert checkout.changed(second) is None, "since the first: its line had happened"


def test_a_path_is_used_again(checkout):
    """`units.py` moves away, then `role.py` takes its name."""
    checkout.move("gmi_drl/units.py", "gmi_drl/rates.py")
    checkout.move("gmi_drl/role.py", "gmi_drl/units.py")
    assert checkout.changed() is None
    checkout.commit()
    assert checkout.changed() is None
    assert checkout.changed(git(checkout.root, "rev-parse", "HEAD")) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("_more(LIMIT)", "_more(3)"),
        ('NAME = "a"', 'NAME = "b"'),
        ("return physics", "return -physics"),
        ("def _more", "A = 1\n\ndef _more"),
    ],
)
def test_what_moves_and_changes_is_stale(checkout, old, new):
    checkout.move("gmi_drl/physics.py", "gmi_drl/sim/engine.py", **{"import physics": "import engine"})
    checkout.replace({"from gmi_drl import engine": "from gmi_drl.sim import engine", "physics.step": "engine.step"})
    checkout.replace({old: new})
    assert checkout.changed() == "gmi_drl/sim/engine.py"


def test_an_import_that_leads_elsewhere_is_a_change(checkout):
    checkout.move("gmi_drl/physics.py", "gmi_drl/engine.py", **{"import physics": "import engine"})
    checkout.replace({"physics.step": "engine.step"})
    assert checkout.changed() is None
    checkout.write({"gmi_drl/other.py": FILES["gmi_drl/units.py"]})
    checkout.replace({"gmi_drl.units import": "gmi_drl.other import"})
    assert checkout.changed() == "gmi_drl/other.py"
    checkout.tell("gmi_drl/other.py gmi_drl/x.py")
    assert checkout.changed() == "gmi_drl/other.py"


def test_a_renamed_class_is_a_change_unless_it_is_in_the_table(checkout):
    checkout.move("gmi_drl/spots.py", "gmi_drl/rendezvous.py")
    assert checkout.changed() is None
    checkout.commit()
    checkout.replace({"Spot": "Rendezvous"})
    assert checkout.changed() == "gmi_drl/rendezvous.py"
    checkout.tell("gmi_drl.rendezvous:Spot gmi_drl.rendezvous:Rendezvous")
    assert checkout.changed() is None, "also where an annotation is quoted"
    checkout.replace({"rank = 1": "rank = 2"})
    assert checkout.changed() == "gmi_drl/rendezvous.py"


def test_a_name_that_a_package_hands_on_lazily_is_that_of_its_module(checkout):
    checkout.move("gmi_drl/spots.py", "gmi_drl/spots/rendezvous.py")
    checkout.replace({"from gmi_drl.spots.rendezvous import": "from gmi_drl.spots import"})
    checkout.write({"gmi_drl/spots/__init__.py": HAND_ON})
    assert checkout.changed() is None
    checkout.write({"gmi_drl/spots/__init__.py": HAND_ON.replace("spots.rendezvous", "units")})
    assert checkout.changed() == "gmi_drl/toy.py"


def test_a_file_is_divided_and_another_is_folded_into_one(checkout):
    """A function goes to a file of its own; the whole of `units.py` goes into that."""
    more = 'def more(physics):\n    """Moved."""\n    return physics\n'
    checkout.write({"gmi_drl/physics.py": DIVIDED, "gmi_drl/parts.py": FILES["gmi_drl/units.py"] + more})
    (checkout.root / "gmi_drl/units.py").unlink()
    checkout.replace({"gmi_drl.units import": "gmi_drl.parts import"})
    checkout.tell("gmi_drl.physics:_more gmi_drl.parts:more")
    assert checkout.changed() == "gmi_drl/parts.py"
    checkout.tell("gmi_drl/units.py gmi_drl/parts.py")
    assert checkout.changed() is None
    checkout.replace({"return physics": "return -physics"})
    assert checkout.changed() == "gmi_drl/parts.py"


def test_names_of_groups_of_entry_points_do_not_move():
    from gmi_drl.benchmarks.canonical_code import differs
    from gmi_drl.benchmarks.sources import Sources

    text = 'from gmi_drl.registry import Registry\n\nALL = Registry("writer", "gmi_drl.writers", ())\n'
    registry = {"gmi_drl/registry.py": "class Registry:\n    pass\n"}
    moves = Moves(((("gmi_drl.writers", ""), ("gmi_drl.config.writers", "")),))
    then = Sources({"gmi_drl/writers.py": text, **registry}, moves)
    now = Sources({"gmi_drl/config/writers.py": text + "\n", **registry}, Moves())
    assert not differs(then, now, "gmi_drl/config/writers.py")


@pytest.mark.parametrize("line", ["gmi_drl/a.py", "gmi_drl/a.py gmi_drl.b:C", "a b c"])
def test_a_line_that_is_no_move_is_refused(line):
    with pytest.raises(MachineError, match="is not an old and a new place"):
        moves_since({}, {TABLE: line})


def test_a_wrong_line_is_not_taken_for_a_commit_that_is_missing(checkout):
    checkout.tell("gmi_drl/a.py")
    with pytest.raises(MachineError, match="is not an old and a new place"):
        checkout.changed()

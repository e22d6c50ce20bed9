import json
import math
from collections import OrderedDict, namedtuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.comm.messages.trees import MAX_DEPTH, Form, decode, encode, filled, raw
from gmi_drl.errors import UsageError

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
DTYPES = sorted({dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}, key=str)
DTYPES = [dtype for dtype in DTYPES if not str(dtype).startswith("torch.q")]


def tensor_of(dtype, shape, seed=0, transposed=False):
    """Any bytes that are a number of every dtype, a boolean too."""
    size = math.prod(shape) * dtype.itemsize
    data = torch.randint(0, 2, (size,), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    tensor = data.view(dtype).reshape(shape)
    return tensor.transpose(0, -1) if transposed and tensor.dim() > 1 else tensor


def there_and_back(tree):
    header, tensors = encode(tree)
    body = torch.cat([torch.empty(0, dtype=torch.uint8), *map(raw, tensors)])
    place = 0

    def make(form):
        nonlocal place
        tensor = form.empty(torch.device("cpu"))
        raw(tensor).copy_(body[place : place + form.nbytes])
        place += form.nbytes
        return tensor

    came = filled(decode(header, body.numel()), make)
    assert place == body.numel()
    return came


def is_same(one, other):
    if isinstance(one, torch.Tensor):
        bits = BITS[one.dtype.itemsize]
        return (one.dtype, one.shape) == (other.dtype, other.shape) and one.view(bits).equal(other.view(bits))
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and one == other


TENSORS = st.builds(
    tensor_of, st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 9), st.booleans()
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
TREES = st.recursive(
    st.one_of(SCALARS, TENSORS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(SCALARS, inner, max_size=4),
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(TREES)
def test_any_tree_comes_back(tree):
    assert is_same(tree, there_and_back(tree))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back(dtype):
    tree = [tensor_of(dtype, shape, 1, transposed) for shape in [(), (0, 2), (5,), (2, 3)] for transposed in (0, 1)]
    assert is_same(tree, there_and_back(tree))


def test_what_is_derived_counts_as_what_it_is_derived_from():
    pair = namedtuple("pair", "a b")
    weight = torch.nn.Parameter(torch.ones(2))
    came = there_and_back(OrderedDict(pair=pair(1, weight), size=torch.Size([2])))
    assert type(came) is dict and type(came["pair"]) is tuple and came["size"] == (2,)
    assert type(came["pair"][1]) is torch.Tensor and not came["pair"][1].requires_grad
    conjugate = torch.tensor([1 + 2j]).conj()
    assert there_and_back(conjugate).tolist() == [1 - 2j]
    assert there_and_back(torch.ones(2).expand(3, 2)).tolist() == [[1, 1]] * 3
    assert math.isnan(there_and_back(math.nan)) and there_and_back(-math.inf) == -math.inf
    assert there_and_back("\ud800") == "\ud800"


def test_contiguous_tensors_are_not_copied():
    weight = torch.nn.Parameter(torch.ones(4, 3))
    _, tensors = encode({"whole": weight, "rows": weight[1:], "columns": weight[:, 1:]})
    assert [tensor.data_ptr() - weight.data_ptr() for tensor in tensors[:2]] == [0, 12]
    assert raw(tensors[1]).data_ptr() == tensors[1].data_ptr() and tensors[2].is_contiguous()


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"a": [1, {2}]}, r"data\['a'\]\[1\] is a set, which cannot be sent"),
        ({(1, 2): 3}, r"key \(1, 2\): keys must be"),
        ([torch.ones(2).to_sparse()], r"data\[0\] is a tensor that is sparse"),
        (torch.ones(2, device="meta"), "no data"),
        (b"bytes", "is a bytes"),
        pytest.param(10**5000, "data cannot be sent", id="digits"),
        ("x" * 5 * 2**20, r"takes 5.0 MiB, more than 4.0 MiB: send numbers as tensors"),
    ],
)
def test_what_cannot_be_sent_is_named(tree, words):
    with pytest.raises(UsageError, match=words):
        encode(tree)


def nested(levels):
    tree = 1
    for _ in range(levels):
        tree = {"a": (tree,)}
    return tree


def test_depth_is_bounded():
    assert there_and_back(nested(MAX_DEPTH // 2)) == nested(MAX_DEPTH // 2)
    itself = []
    itself.append(itself)
    for tree in (itself, nested(MAX_DEPTH // 2 + 1)):
        with pytest.raises(UsageError, match=f"more than {MAX_DEPTH} levels"):
            encode(tree)
    for header in (b"[" * 100_000 + b"]" * 100_000, b"[" * 66 + b"]" * 66):
        with pytest.raises(ValueError, match="nested too deeply"):
            decode(header, 0)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"tensor": ["float99", [1]]}, "unknown dtype 'float99'"),
        ({"tensor": ["qint8", [4]]}, "unknown dtype"),
        ({"tensor": ["load", [4]]}, "unknown dtype"),
        ({"tensor": ["float32", [-1]]}, "impossible shape"),
        ({"tensor": ["float32", [True]]}, "impossible shape"),
        ({"tensor": ["float32", [1.0]]}, "impossible shape"),
        ({"tensor": ["float32", [1] * 65]}, "impossible shape"),
        ({"tensor": ["float32", [2**40, 2**40, 0]]}, "impossible shape"),
        ({"tensor": ["float32", [2**50]]}, "take 4503599627370496 bytes, but 4 follow"),
        ({"tensor": ["float32", []], "more": 1}, "part of a tree"),
        ({"tensor": ["float32"]}, "part of a tree"),
        ({"dict": [["a", 1], ["a", 2]]}, "a key and its value"),
        ({"dict": [[["a"], 1]]}, "a key and its value"),
        ({"dict": [["a"]]}, "a key and its value"),
        ({}, "part of a tree"),
        ([1], "take 0 bytes, but 4 follow"),
    ],
)
def test_what_no_header_has_is_refused(node, words):
    with pytest.raises(ValueError, match=words):
        decode(json.dumps(node).encode(), 4)


@settings(max_examples=100)
@given(st.data())
def test_a_spoilt_header_is_a_value_error_or_another_tree(data):
    header = bytearray(encode(data.draw(TREES))[0])
    for place in data.draw(st.lists(st.integers(0, len(header) - 1), min_size=1, max_size=3)):
        header[place] = data.draw(st.sampled_from(b'0129-{}[],:"\\e\xff') | st.integers(0, 255))
    try:
        tree = decode(header, data.draw(st.integers(0, 99)))
    except ValueError:
        return
    filled(tree, lambda form: form.empty(torch.device("meta")))


def test_a_form_knows_its_bytes():
    assert Form(torch.float64, (2, 3)).nbytes == 48 and Form(torch.bool, ()).nbytes == 1

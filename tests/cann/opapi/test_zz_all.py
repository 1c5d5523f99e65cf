"""Last: no row of the table is without a test of its values."""
import test_complex
import test_counting
import test_dispatch
import test_elementwise
import test_indices
import test_models
import test_networks
import test_narrow
import test_random_tensor
import test_recurrent
import test_reductions
import test_tables
import torch
from aclnn import Error, call, ran, rows
from samples import TYPES


def test_every_row_has_a_test_of_its_values(request):
    ran = {item.module.__name__ for item in request.session.items if hasattr(item, "module")}
    modules = (test_complex, test_counting, test_dispatch, test_elementwise, test_indices, test_models,
               test_networks, test_random_tensor, test_recurrent, test_reductions, test_tables)
    if not {m.__name__ for m in modules} <= ran:
        import pytest
        pytest.skip("only part of the tests was run")
    covered = set().union(*(m.COVERED for m in modules))
    assert sorted(set(rows()) - covered) == []


def converted(value, old, new):
    """The operand with tensors of the one type as tensors of the other, and lists of them."""
    if isinstance(value, torch.Tensor):
        if value.dtype != old:
            return value
        whole = value.to(torch.float32) if old.is_complex else value
        if new == torch.uint8 and old != torch.bool:
            whole = whole.abs()
        return torch.empty_strided(value.shape, value.stride(), dtype=new).copy_(whole)
    if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return [converted(v, old, new) for v in value]
    return new if value is old else value


def test_every_type_that_a_row_lists_can_be_run(request):
    """Operands of an earlier test, in each type that the row has and no test has used."""
    if len(ran) < len(rows()) * 0.95:
        import pytest
        pytest.skip("only part of the tests was run")
    wrong = []
    for name, by_type in sorted(ran.items()):
        for dtype in TYPES[rows()[name][0]]:
            if dtype in by_type:
                continue
            old, values = next(iter(by_type.items()))
            try:
                call(name, *(converted(v, old, dtype) for v in values))
            except Error as error:
                # PyTorch's rule: integers in place do not become floats, whatever types there are
                if name.startswith("Inplace") and "can't be cast" in str(error):
                    continue
                wrong.append(f"aclnn{name} with {dtype}: {error}")
    assert not wrong, "\n".join(wrong)

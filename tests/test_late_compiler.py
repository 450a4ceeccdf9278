"""torch's compiler is imported only for compilation, and then behaves as always."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LATE = "from envlab.late_compiler import import_compiler_late; import_compiler_late()\n"
IS_LOADED = "'torch._dynamo.symbolic_convert' in sys.modules"
STEP = """
import sys, torch, tensordict
layer = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(layer.parameters())
def step():
    optimizer.zero_grad()
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
step()
"""


def run(code: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
def test_a_training_does_not_import_it(tmp_path: Path):
    flags = "--task=Isaac-Cartpole-v0 --device=cpu --num_envs=8 --max_iterations=1".split()
    code = f"""
import sys
from envlab.cli import main
for library in ("fast_sac", "rsl_rl", "skrl"):
    assert main(["train", library, *{flags}]) == 0
    print(library, {IS_LOADED})
"""
    told = [line for line in run(code, tmp_path).splitlines() if line.endswith(("True", "False"))]
    assert told == ["fast_sac False", "rsl_rl False", "skrl False"]


LOOK = """
from torch._dynamo import trace_rules
from torch.optim import Optimizer
step()
allowed = len(trace_rules._allowed_callable_ids.function_ids)
wrapped = [
    Optimizer.zero_grad.__wrapped__.__dynamo_disable is not Optimizer.zero_grad.__wrapped__,
    Optimizer.add_param_group.__wrapped__ in vars(torch._dynamo).values(),
]
compiled = torch.compile(lambda x: x.sin() + 1.0, backend="eager")
print(allowed, wrapped, float(compiled(torch.zeros(()))))
print(torch._dynamo is sys.modules["torch._dynamo"])
print(torch._dynamo.utils.__name__, type(torch._dynamo).__name__, torch._dynamo.__file__)
"""


@pytest.mark.long
def test_without_the_delay_any_optimizer_imports_it_and_after_it_all_is_as_torch_has_it():
    """Including tensordict's functions, which are marked during its import."""
    now, *stock = run(f"{STEP}print({IS_LOADED}){LOOK}").splitlines()
    late, *ours = run(f"{LATE}{STEP}print({IS_LOADED}){LOOK}").splitlines()
    assert (now, late) == ("True", "False")
    assert ours == stock

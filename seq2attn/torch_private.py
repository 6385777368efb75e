"""The names that seq2attn uses of torch outside its public interface, under the promises that rest
on them. There is no public way that is as fast and as exact.

`from seq2attn.torch_private import fused_adamw` raises `Seq2AttnError`, which names the promise, if
this torch lacks the name.
"""

import pkgutil
from typing import Any

import torch

from seq2attn.errors import Seq2AttnError

TESTED = "2.13"
"""the version of torch with which every promise was tested"""
PROMISES = {
    "one operation updates all weights, without the compiler that torch.optim imports": {
        "fused_adamw": "torch._fused_adamw_",
    },
    "a GPU clips all gradients in a few launches": {
        "foreach_norm": "torch._foreach_norm",
        "foreach_multiply": "torch._foreach_mul_",
    },
    "a mask and a softmax are one operation": {
        "masked_softmax": "torch._masked_softmax",
    },
    "the kernels never compute a model that hooks of PyTorch watch": {
        "has_any_global_hook": "torch.nn.modules.module._has_any_global_hook",
    },
    "a beam selects rows of nested states, and a page has them as named tensors": {
        "tree_map": "torch.utils._pytree.tree_map",
        "tree_map_with_path": "torch.utils._pytree.tree_map_with_path",
        "tree_leaves_with_path": "torch.utils._pytree.tree_leaves_with_path",
    },
    "a page takes operations apart that its interpreter lacks": {
        "decomposition_table": "torch._decomp.decomposition_table",
    },
    "a page trains: a step is traced as simple operations on its weights": {
        "reparametrize_module": "torch.nn.utils.stateless._reparametrize_module",
        "aten_fused_adamw": "torch.ops.aten._fused_adamw_.tensor_lr",
        "aten_foreach_norm": "torch.ops.aten._foreach_norm.Scalar",
        "aten_foreach_multiply": "torch.ops.aten._foreach_mul_.Tensor",
    },
}
"""what seq2attn promises -> the names that the promise needs: ours -> torch's"""


def __getattr__(name: str) -> Any:
    """Return the function of torch that has this name in `PROMISES`. Python calls `__getattr__` for
    a name that the module does not define, as in `from seq2attn.torch_private import fused_adamw`.

    Raises `Seq2AttnError` if this torch lacks the function, and `AttributeError`, as Python expects
    it, for a name that is not in `PROMISES`.
    """
    for promise, names in PROMISES.items():
        if name in names:
            try:
                return pkgutil.resolve_name(names[name])
            except (AttributeError, ImportError):
                raise Seq2AttnError(
                    f"torch {torch.__version__} has no {names[name]}, by which {promise}",
                    hint=f"Install torch {TESTED}, with which seq2attn was tested.",
                    exit_code=1,
                ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""A3C with its gradients by torch's autograd, with which `a3c_update` compares the gradients computed by hand."""

from gmi_drl.algo.a3c import A3C, Samples


class A3CByAutograd(A3C):
    """The same loss, differentiated by autograd."""

    def _compute_gradient(self, part: Samples) -> None:
        """See `A3C`."""
        self._by_autograd(part)

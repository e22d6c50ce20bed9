"""A3C with its gradients by torch's autograd, with which `a3c_update` compares the gradients computed by hand."""

import torch

from gmi_drl.algo.a3c import A3C, Samples


class A3CByAutograd(A3C):
    """The same loss, differentiated by autograd."""

    def _compute_gradient(self, part: Samples) -> None:
        """See `A3C`."""
        config = self.config
        self.flat.bucket.zero_()
        log_prob = self.policy.log_prob(part.action, self.policy.actor(part.obs))
        with torch.no_grad():
            change = log_prob - part.log_prob
            ratio = change.exp()
            rho = ratio.clamp(max=config.rho_clip) * part.valid
            weight = rho if config.vtrace else part.valid
            if config.clip is not None:
                weight = weight * ((ratio - 1) * part.advantage.sign() <= config.clip)
            kl = 0.5 * (change.square() * part.valid).mean()
        policy_loss = -(log_prob * weight * part.advantage).mean()
        value_loss = ((self.policy.value(part.obs) - part.target).square() * part.valid).mean()
        loss = policy_loss + config.value_loss_coef * value_loss - config.entropy_coef * self.policy.entropy()
        self._fill_bucket(loss, policy_loss, value_loss, kl, rho.mean())

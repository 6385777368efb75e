"""Decoder states that move little from step to step (temporal activation regularisation, Merity et
al. 2017).
"""

from seq2attn import Loss, register


@register("quiet_states", formula="mean |s_t - s_{t-1}|^2 / D")
class QuietStates(Loss):
    """Punishes large steps of the decoder's state."""

    def forward(self, decoded, batch, states):
        steps = (states[:, 1:] - states[:, :-1]).square().mean(dim=2)  # (B, L - 1)
        return steps[batch.decoder_output[:, 1:] != 0].mean()

"""A loss that sharpens attention: the entropy of the weights."""

from seq2attn import Loss, register


@register("sharp", formula="-sum_j alpha_tj log alpha_tj")
class Sharp(Loss):
    """The entropy of the weights of an output."""

    needs_attention = True

    def forward(self, decoded, batch):  # decoded.logits (B, L, V), decoded.weights (B, L, S)
        weights = decoded.weights
        entropy = -(weights * weights.clamp(min=1e-9).log()).sum(2)  # (B, L)
        return entropy[batch.decoder_output != 0].mean()  # 0: <pad>, past a string's end

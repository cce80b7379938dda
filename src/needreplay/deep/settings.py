"""Settings of the deep agents: double DQN, its replay, and the deep successor representation.

One flat record, so that every value has one name on the command line, in a sweep's file and here.
``presets.py`` fills it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from needreplay.core.checks import ANY, AT_LEAST_ONE, COUNT, SHARE, Bounds, check_fields
from needreplay.core.errors import NeedReplayError

Base = Literal["dqn", "double-dqn"]
DrawName = Literal["uniform", "per", "rank", "pser", "per-sr", "per-sr-sampling"]
Network = Literal["nature", "minatar", "vector"]


@dataclass(frozen=True)
class DeepSettings:
    """Everything that decides what a deep agent learns, besides its world and its seed."""

    # The learner.
    base: Base = "double-dqn"
    """dqn: max Q' of the target network; double-dqn: its value of the online network's choice"""
    network: Network = "minatar"
    """layers of the Q network and of the successor network: nature (84 x 84 x 4 pixels), minatar
    (10 x 10 planes) or vector (a row of numbers)"""
    discount: float = 0.99
    """γ, of Q and of the successor representation"""
    n_step: int = 1
    """steps a return runs over before it bootstraps; need is then counted at every n-th step"""
    batch_size: int = 32
    """transitions in an update"""
    capacity: int = 100_000
    """transitions that the memory keeps"""
    frame_stack: int = 0
    """images whose channels are this many successive frames: each frame is stored once; 0: images
    are stored as they are"""
    min_history: int = 5_000
    """steps before the first update"""
    update_period: int = 4
    """steps between updates"""
    target_period: int = 1_000
    """steps between copies of the Q network to its target"""
    reward_clip: bool = True
    """rewards are learned as clipped to -1..1 (returns are always reported unclipped)"""
    epsilon_end: float = 0.1
    """the share of random actions falls from 1 to this ..."""
    epsilon_steps: int = 100_000
    """... in this many steps after the first update"""
    eval_epsilon: float = 0.001
    """the share of random actions in evaluation"""

    # The optimiser.
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """rmsprop is centred, with eps inside the root, as TensorFlow has it"""
    learning_rate: float = 2.5e-4
    """step size of the Q network, before the cut"""
    step_cut: float = 1.0
    """the Q network's step is multiplied by this; Schaul et al. took 0.25 for prioritised replay"""
    optimizer_eps: float = 3.125e-4
    """eps of either optimiser"""
    rms_decay: float = 0.95
    """decay of rmsprop's averages"""

    # The draw.
    sampler: DrawName = "per"
    """how a batch is drawn, and what need does: scale the update (per-sr) or be part of the
    probability (per-sr-sampling)"""
    gain: Literal["abs", "sqrt-huber"] = "abs"
    """what is told to the memory: |δ| + gain_floor, or sqrt(huber(δ) + 1e-10)"""
    gain_floor: float = 1e-6
    """added to |δ|, so that no transition is lost for ever"""
    alpha: float = 0.6
    """α of the gain"""
    need_alpha: float = 1.0
    """α of the need in the probability (per-sr-sampling)"""
    corrects: Literal["gain", "both"] = "gain"
    """what importance weights undo where need is in the probability"""
    beta_start: float = 0.4
    """β of the importance weights at the first update ..."""
    beta_end: float = 1.0
    """... and at the run's end"""

    # The deep successor representation.
    encoder: Literal["own", "shared"] = "own"
    """features from the successor network's own layers, or the Q network's last hidden layer"""
    features: int = 64
    """features of the own encoder, and hidden units of each successor branch"""
    feature_sign: Literal["any", "nonnegative"] = "nonnegative"
    """nonnegative: features pass a ReLU, and successor features a softplus"""
    successor_of: Literal["pair", "state"] = "pair"
    """successor features of a state and action, or of the state alone"""
    decoder: Literal["full", "small", "none"] = "full"
    """what trains the own encoder: the released decoder, one of a quarter of its channels, none"""
    decoder_period: int = 1
    """updates of the successor network between those of its decoder"""
    successor_action: Literal["greedy", "stored"] = "greedy"
    """a' of the successor target: argmax Q(s', a'), or the action that was taken"""
    successor_target_period: int = 1_000
    """steps between copies of the successor network to its target; 0: no target network"""
    successor_terminal: Literal["masked", "last", "unmasked"] = "masked"
    """at a terminal: φ(s), φ(s) + γ φ(s'), or as anywhere else"""
    successor_moves_features: bool = False
    """whether the successor loss moves the encoder"""
    successor_batch: Literal["same", "another"] = "same"
    """whether the successor network learns from the Q network's batch or from one of its own"""
    pixel_loss: Literal["squared", "huber"] = "squared"
    """the decoder's loss: |s - g(φ)|², or the mean Huber loss on pixels times 255"""
    need_row: Literal["greedy", "previous"] = "greedy"
    """whose need: the present state with its greedy action, or the pair before it"""
    direction: Literal["forward", "backward"] = "forward"
    """states that the present leads to, or states that lead to the present"""
    negative: Literal["offset", "fallback", "clip", "nonnegative"] = "nonnegative"
    """negative need: less min(0, the batch's minimum); need 1 for that batch; 0; cannot occur"""
    scale: Literal["raw", "mean", "max"] = "mean"
    """need as it is, or divided by its mean or maximum in the batch"""
    need_moves_features: bool = False
    """whether the Q-loss, through need, moves the successor network"""
    refresh: int = 0
    """old transitions whose features are told anew at each update (per-sr-sampling), beside those
    that were replayed"""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing, alone or together."""
        check_fields(self, BOUNDS)
        self._check_together()

    def _check_together(self) -> None:
        if self.negative == "nonnegative" and self.feature_sign == "any" and self.uses_need:
            raise NeedReplayError(
                "negative is 'nonnegative', which holds only for feature_sign 'nonnegative'; "
                "choose another way with negative need: offset, fallback or clip."
            )
        if self.successor_action == "stored" and self.n_step > 1:
            raise NeedReplayError(
                "successor_action is 'stored', but with n_step above 1 the action after the window "
                "is not stored; choose 'greedy'."
            )
        if self.encoder == "shared" and self.successor_moves_features:
            raise NeedReplayError(
                "successor_moves_features needs encoder 'own': a shared one belongs to the Q-loss."
            )
        if self.encoder == "shared" and self.need_moves_features:
            raise NeedReplayError("need_moves_features needs encoder 'own'.")

    @property
    def uses_need(self) -> bool:
        """Whether there is a successor network at all."""
        return self.sampler in ("per-sr", "per-sr-sampling")


BOUNDS: Bounds = {
    **dict.fromkeys(
        ("n_step", "batch_size", "capacity", "update_period", "features", "target_period"),
        AT_LEAST_ONE,
    ),
    "decoder_period": AT_LEAST_ONE,
    **dict.fromkeys(("min_history", "epsilon_steps", "successor_target_period"), COUNT),
    **dict.fromkeys(("refresh", "frame_stack"), COUNT),
    **dict.fromkeys(
        ("discount", "epsilon_end", "eval_epsilon", "beta_start", "beta_end", "need_alpha"),
        SHARE,
    ),
    **dict.fromkeys(("learning_rate", "step_cut", "optimizer_eps", "gain_floor", "alpha"), ANY),
}

"""Settings of the deep agents: double DQN, its replay, need, and the paper's successor network.

Every value has one name, the same on the command line, in a sweep file and here, also those of
``PaperNeedSettings``, which are a part of ``DeepSettings``. ``presets.py`` fills them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from needreplay._core.checks import ANY, AT_LEAST_ONE, COUNT, SHARE, Bounds, check_fields
from needreplay._core.errors import NeedReplayError
from needreplay.need import LEARN_EVERY, REFRESH, Direction, NeedForm, Query

Base = Literal["dqn", "double-dqn"]
SamplerName = Literal["uniform", "per", "rank", "pser", "per-recency", "per-sr", "per-sr-sampling"]
Network = Literal["nature", "minatar", "vector"]


@dataclass(frozen=True)
class PaperNeedSettings:
    """The paper's need (need_learner successor): encoder f, successor branches u, decoder g."""

    features: int = 64
    """features of the own encoder, and hidden units of each successor branch"""
    feature_sign: Literal["any", "nonnegative"] = "nonnegative"
    """nonnegative: a ReLU after the features, a softplus after the successor features"""
    successor_of: Literal["pair", "state"] = "pair"
    """successor features of a state and action, or of the state only"""
    decoder: Literal["full", "small", "none"] = "full"
    """trains the own encoder: the released decoder, one with a quarter of its channels, none"""
    decoder_period: int = 1
    """successor updates between decoder updates"""
    successor_action: Literal["greedy", "stored"] = "greedy"
    """a' of the successor target: argmax Q(s', a'), or the action that was taken"""
    successor_target_period: int = 1_000
    """steps between copies of the successor network to its target network; 0: no target network"""
    successor_terminal: Literal["masked", "last", "unmasked"] = "masked"
    """the successor target at a terminal: φ(s), φ(s) + γ φ(s'), or no exception"""
    successor_moves_features: bool = False
    """whether the successor loss trains the encoder"""
    successor_batch: Literal["same", "another"] = "same"
    """whether the successor network learns from the Q network's batch or from a second one"""
    pixel_loss: Literal["squared", "huber"] = "squared"
    """the decoder's loss: |s - g(φ)|², or the mean Huber loss on pixels times 255"""
    need_row: Literal["greedy", "previous"] = "greedy"
    """where need is seen from: the current state and its greedy action, or the newest stored pair
    (with n_step 1 the step before)"""
    need_moves_features: bool = False
    """whether the Q loss trains the encoder through the norm of φ in need (per-sr); m · φ never
    carries a gradient"""

    def __post_init__(self) -> None:
        """Raise for values that make no sense."""
        at_least_one = dict.fromkeys(("features", "decoder_period"), AT_LEAST_ONE)
        check_fields(self, {**at_least_one, "successor_target_period": COUNT})


@dataclass(frozen=True)
class DeepSettings:
    """Everything that decides what a deep agent learns, besides its world and its seed."""

    # DQN.
    base: Base = "double-dqn"
    """dqn: the target network's maximum; double-dqn: its value of the online network's choice"""
    network: Network | str = "minatar"
    """layers of the Q network and the paper's successor network: nature (84 x 84 x 4 pixels),
    minatar (10 x 10 planes) or vector (a row of numbers); your own: a function of the observation's
    shape that returns a torch module from observations to rows of features"""
    discount: float = 0.99
    """γ, for Q and for the paper's successor network"""
    n_step: int = 1
    """steps in a return before it bootstraps; need then counts every n-th step"""
    batch_size: int = 32
    """transitions in an update"""
    capacity: int = 100_000
    """transitions that the replay buffer stores"""
    frame_stack: int = 0
    """an image's channels are this many successive frames, each stored once; 0: images are stored
    as they are"""
    min_history: int = 5_000
    """steps before the first update"""
    update_period: int = 4
    """steps between updates"""
    target_period: int = 1_000
    """steps between copies of the Q network to its target network"""
    reward_clip: bool = True
    """clip rewards to -1..1 for learning (reported returns are never clipped)"""
    epsilon_end: float = 0.1
    """the probability of a random action falls from 1 to this ..."""
    epsilon_steps: int = 100_000
    """... in this many steps after the first update"""
    eval_epsilon: float = 0.001
    """the probability of a random action in evaluation"""

    # Optimizer.
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """rmsprop is centered, with eps inside the root, as in TensorFlow"""
    learning_rate: float = 2.5e-4
    """step size; that of the Q network is multiplied by step_cut"""
    step_cut: float = 1.0
    """factor of the Q network's step size; Schaul et al. used 0.25 for prioritized replay"""
    optimizer_eps: float = 3.125e-4
    """eps of either optimizer"""
    rms_decay: float = 0.95
    """decay of rmsprop's averages"""

    # Sampling.
    sampler: SamplerName | str = "per"
    """how batches are sampled, and what need does: scale the update (per-sr) or be part of the
    probability (per-sr-sampling); your own: a function of these settings that returns a Sampler"""
    gain: Literal["abs", "sqrt-huber"] = "abs"
    """the priority of a transition: |δ| + gain_floor, or sqrt(huber(δ) + 1e-10)"""
    gain_floor: float = 1e-6
    """added to |δ|, so that every transition can be sampled again"""
    alpha: float = 0.6
    """exponent of the priority"""
    need_alpha: float = 1.0
    """exponent of the need in the probability (per-sr-sampling)"""
    correct_for: Literal["gain", "both"] = "gain"
    """what importance weights correct for if need is part of the probability"""
    stratified: bool = True
    """per, per-sr, pser: one transition from each of batch_size equal shares of the probability, as
    Schaul et al. do; need samplers never do this, so set it to False to compare with them"""
    uniform_mix: float = 0.0
    """share of the probability that is uniform, so that transitions without need stay reachable"""
    mean_age: float = 1_000.0
    """per-recency: mean age of what recency alone would sample, in transitions stored since"""
    beta_start: float = 0.4
    """exponent β of the importance weights at the start of the run ..."""
    beta_end: float = 1.0
    """... and at its end"""

    # Need (per-sr and per-sr-sampling).
    need_learner: Literal["successor", "cosine", "spectral", "linear"] = "cosine"
    """a need model: a power of a cosine or least squares, both contrastive, or random features
    in closed form; or successor, the paper's network, with the settings of its own below"""
    encoder: Literal["own", "shared"] = "own"
    """need's features: from layers of its own, or from the Q network's last hidden layer"""
    direction: Direction = "forward"
    """need of states that follow the current one, or that lead to it"""
    need_query: Query = "present"
    """the state that the need of a need model is seen from: the present one; a recent one, another
    for each row of a batch (stationary need); the start of an episode, another for each row"""
    need_relative: bool = True
    """need of a need model is M / p, relative to how often a state is stored; false: M, which only
    linear can learn (and the paper's successor network always does)"""
    need_discount: float = 0.9
    """γ of a need model: it looks about 1 / (1 - γ) steps ahead"""
    learn_every: int = LEARN_EVERY
    """updates of the agent between updates of need, and of the vectors that the buffer has of it;
    the paper's network learns from every batch"""
    refresh: int = REFRESH
    """stored vectors that are renewed for each update, beside those of the batch (per-sr-sampling)
    """
    shuffle: bool = False
    """a control: each stored transition has the need of another one"""
    negative: Literal["offset", "fallback", "clip"] = "clip"
    """negative need that scales an update (per-sr): subtract min(0, batch minimum); need 1 for the
    batch; 0"""
    scale: Literal["raw", "mean", "max"] = "mean"
    """need that scales an update (per-sr): unchanged, or divided by its mean or maximum in the
    batch"""
    paper: PaperNeedSettings = field(default_factory=PaperNeedSettings)
    """the paper's need"""

    def __post_init__(self) -> None:
        """Raise for values that make no sense, alone or together."""
        check_fields(self, BOUNDS)
        if self.paper.successor_action == "stored" and self.n_step > 1:
            raise NeedReplayError(
                "successor_action is 'stored', but with n_step above 1 the buffer does not store "
                "the action after the n steps; choose 'greedy'."
            )
        if self.need_learner == "successor" and self.need_query != "present":
            raise NeedReplayError(
                f"need_query is {self.need_query!r}, but need_learner is 'successor', whose need "
                "is seen from the present state; choose a need model: cosine, spectral or linear."
            )
        if self.sampler == "per-sr" and self.need_query != "present":
            raise NeedReplayError(
                f"need_query is {self.need_query!r}, but sampler is 'per-sr', which scales updates "
                "by the need seen from the present state; choose 'per-sr-sampling'."
            )
        for name in ("successor_moves_features", "need_moves_features"):
            if self.encoder == "shared" and getattr(self.paper, name):
                raise NeedReplayError(
                    f"{name} is True, but encoder is 'shared', which only the Q loss trains; "
                    "choose encoder 'own'."
                )

    @property
    def uses_need(self) -> bool:
        """Whether the agent computes need."""
        return self.sampler in ("per-sr", "per-sr-sampling")

    @property
    def samples_by_need(self) -> bool:
        """Whether need is part of the probability."""
        return self.sampler == "per-sr-sampling"

    @property
    def stores_next_action(self) -> bool:
        """Whether the action after a transition is stored with it, for the paper's need."""
        by_paper = self.uses_need and self.need_learner == "successor"
        return by_paper and self.paper.successor_action == "stored"

    @property
    def need_form(self) -> NeedForm:
        """Which need a need model learns."""
        return NeedForm(self.need_query, self.direction, self.need_relative)


BOUNDS: Bounds = {
    **dict.fromkeys(
        ("n_step", "batch_size", "capacity", "update_period", "target_period", "learn_every"),
        AT_LEAST_ONE,
    ),
    **dict.fromkeys(("min_history", "epsilon_steps"), COUNT),
    **dict.fromkeys(("refresh", "frame_stack"), COUNT),
    "uniform_mix": SHARE,
    **dict.fromkeys(
        (
            "discount",
            "need_discount",
            "epsilon_end",
            "eval_epsilon",
            "beta_start",
            "beta_end",
            "need_alpha",
        ),
        SHARE,
    ),
    "mean_age": (1.0, math.inf),
    **dict.fromkeys(("learning_rate", "step_cut", "optimizer_eps", "gain_floor", "alpha"), ANY),
}

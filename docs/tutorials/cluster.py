"""One replay, on a laptop and on a cluster.

Two processes play, and this one learns from what both write: first on this machine, then over two
nodes of a cluster, of which one is lost. It takes half a minute and needs
`pip install 'needreplay[ray]' gymnasium`.
"""

#: ## A process that plays
#:
#: It gets a writer, which is all that it needs to know of the replay. `flush` waits until the
#: learner has taken what was written.

import gymnasium
import numpy as np
import ray
from needreplay import ProportionalSampler
from needreplay.distributed import RayReplayBuffer


@ray.remote(num_cpus=0)
def play(writer, seed, steps):
    """Take random steps and write them."""
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        writer.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
        )
        obs = env.reset()[0] if terminated or truncated else next_obs
    writer.flush()


#: ## The learner
#:
#: It has the index: it samples from all that has come, wherever the rows are. Your loss goes where
#: `td_error` is.


def make_buffer():
    """A prioritized buffer whose rows are in two shards."""
    env, sampler = gymnasium.make("CartPole-v1"), ProportionalSampler(0.6)
    return RayReplayBuffer.for_env(env, capacity=10_000, sampler=sampler, shards=2, min_size=100)


def learn(buffer, players):
    """Learn until all players have ended."""
    rng = np.random.default_rng(0)
    while len(ray.wait(players, num_returns=len(players), timeout=0)[0]) < len(players):
        batch = buffer.sample(32, beta=0.4)
        td_error = rng.normal(size=32)
        buffer.update_priorities(batch.ids, np.abs(td_error))


#: ## On a laptop
#:
#: Ray starts with the buffer and ends with it.

with make_buffer() as buffer:
    learn(buffer, [play.remote(buffer.writer(), seed, 500) for seed in range(2)])
    print(f"{len(buffer):,} transitions, {buffer.lost} lost")

#: ## On a cluster
#:
#: On one machine `ray start --head`, on the others `ray start --address FIRST:6379`, the same
#: version of needreplay on all. Then `ray.init(address="auto")`, and the rest stays as it was. Here
#: two nodes on this machine stand for two machines. Shards are dealt out to the nodes.

from ray.cluster_utils import Cluster

memory = {"num_cpus": 1, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args=memory)
second = cluster.add_node(**memory)
cluster.wait_for_nodes()
ray.init(address=cluster.address, log_to_driver=False)

buffer = make_buffer()
learn(buffer, [play.remote(buffer.writer(), seed, 500) for seed in range(2)])
print(f"{len(buffer):,} transitions on {len(ray.nodes())} nodes, {buffer.lost} lost")

#: ## A machine is lost
#:
#: Its rows are gone, and counted; what the other machine has can be sampled as before. Ray starts
#: another shard, so that writers can go on.

buffer.save("replay")
cluster.remove_node(second)
while not buffer.lost:
    buffer.poll()
batch = buffer.sample(32)
print(f"{len(buffer):,} transitions, {buffer.lost:,} lost, {buffer.inserted:,} came")
buffer.close()

#: ## The learner is lost
#:
#: A file that `save` wrote has all rows and the index. `count_in` keeps in a small file how many
#: transitions have come. So a learner that was killed can say after its restart how many it lost.

with make_buffer() as buffer:
    buffer.load("replay")
    buffer.count_in("came")
    learn(buffer, [play.remote(buffer.writer(), 2, 300)])
with make_buffer() as buffer:  # as after a crash: what came meanwhile was not saved
    buffer.load("replay")
    print(f"{len(buffer):,} transitions, {buffer.count_in('came'):,} lost with the learner")
ray.shutdown()
cluster.shutdown()

#: ## Without a loop of your own
#:
#: `needreplay train --world CartPole-v1 --agent per --actors 2 --shards 2` does all of this for any
#: deep agent, on this machine; `--address auto` joins a cluster. [One replay over many
#: machines](../many_machines.md) says what is promised, and what it costs.

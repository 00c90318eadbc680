"""Connections that are slow, each in its own way, or break: the result has the same bits."""
import os
import random
import sys

from case import ClusterCase, harness, jobs, unittest
from relay import Relay

DELAY_S = 0.005
LEASE_MS = 20000
STEPS = 32  # an epoch of 2,000 samples in batches of 64
BREAKS = 8


class Delays(ClusterCase):
    def run_behind_relays(self, job, ps, workers, seed, disturb=lambda cluster, relays: None):
        """Runs a cluster whose roles reach each other through relays only; returns its summary, and how many
        connections disturb() broke."""
        relays = {}
        with harness.Cluster(job, ps=ps, workers=workers) as cluster:
            try:
                for name in cluster.names:
                    relays[name] = Relay(int(cluster.address(name).rsplit(":", 1)[1]), DELAY_S, f"{seed} {name}")
                for name in cluster.names:
                    cluster.start(name, cluster=self.map_for(cluster, relays, name))
                disturb(cluster, relays)
                self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
                return cluster.summary(), sum(relay.breaks for relay in relays.values())
            finally:
                for relay in relays.values():
                    relay.close()

    @staticmethod
    def map_for(cluster, relays, name):
        """What a role is told: its own address, and the relays of the others."""
        told = {}
        for role, addresses in cluster.map.items():
            told[role] = [address if f"{role}/{index}" == name else f"127.0.0.1:{relays[f'{role}/{index}'].port}"
                          for index, address in enumerate(addresses)]
        return told

    def setUp(self):
        self.settings = {"replicas": 3, "fit.epochs": 1, "cluster.lease_ms": LEASE_MS}
        self.undisturbed = harness.run_job(self.job(self.settings)).summary

    def assert_same(self, summary):
        for digest in ("digest", "state_digest"):
            self.assertEqual(summary[digest], self.undisturbed[digest])

    def test_random_delays_change_no_bit(self):
        for seed in range(2):
            summary, _ = self.run_behind_relays(self.job(self.settings), 2, 3, seed)
            self.assert_same(summary)

    def test_connections_that_break_are_joined_again_and_change_no_bit(self):
        """All of them, or those to one server, at random moments: after so many bytes of what the job moves."""
        seed = int(os.environ.get("WEIR_TEST_SEED") or random.randrange(1 << 32))
        print(f"\nWEIR_TEST_SEED={seed}", file=sys.stderr)
        source = random.Random(seed)
        workers = 2
        moved_bytes = 2 * workers * STEPS * 4 * jobs.mlp_parameters()
        moments = sorted(source.uniform(0, 0.95) for _ in range(BREAKS))

        def disturb(cluster, relays):
            servers = [name for name in relays if not name.startswith("worker")]  # nobody calls workers
            for moment in moments:
                harness.wait_until(lambda: sum(r.passed_bytes for r in relays.values()) >= moment * moved_bytes,
                                   f"{moment:.0%} of the bytes", evidence=cluster.told)
                victims = source.choice([servers, [source.choice(servers)]])
                print(f"after {moment:.0%}: {' '.join(victims)}", file=sys.stderr)
                for name in victims:
                    relays[name].break_all()

        summary, breaks = self.run_behind_relays(self.job(self.settings), 2, workers, seed, disturb)
        self.assertGreater(breaks, 0)
        self.assert_same(summary)


if __name__ == "__main__":
    unittest.main()

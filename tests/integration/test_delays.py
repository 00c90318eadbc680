"""Connections that are slow, each in its own way, or break: the result has the same bits."""
from case import ClusterCase, harness, unittest
from relay import Relay

DELAY_S = 0.005
LEASE_MS = 20000


class Delays(ClusterCase):
    def run_behind_relays(self, job, ps, workers, seed, breaks=0):
        """Runs a cluster whose roles reach each other through relays only; returns its summary."""
        relays = {}
        with harness.Cluster(job, ps=ps, workers=workers) as cluster:
            try:
                for name in cluster.names:
                    relays[name] = Relay(int(cluster.address(name).rsplit(":", 1)[1]), DELAY_S, f"{seed} {name}")
                for name in cluster.names:
                    cluster.start(name, cluster=self.map_for(cluster, relays, name))
                for _ in range(breaks):
                    cluster.processes["worker/0"].wait_for_line("computes")
                    for relay in relays.values():
                        relay.break_all()
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
        summary, breaks = self.run_behind_relays(self.job(self.settings), 2, 2, 7, breaks=3)
        self.assertGreater(breaks, 0)
        self.assert_same(summary)


if __name__ == "__main__":
    unittest.main()

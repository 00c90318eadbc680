"""Every placement three times, for each number of replicas."""
from case import unittest
from test_equal import Placements


class EveryRepeat(Placements):
    def check_all(self, replicas):
        self.check_replicas(replicas, lambda number: 3)

    def test_one_replica_ends_alike_on_every_placement_three_times(self):
        self.check_all(1)

    def test_three_replicas_end_alike_on_every_placement_three_times(self):
        self.check_all(3)

    def test_four_replicas_end_alike_on_every_placement_three_times(self):
        self.check_all(4)

    def test_six_replicas_end_alike_on_every_placement_three_times(self):
        self.check_all(6)


if __name__ == "__main__":
    unittest.main()

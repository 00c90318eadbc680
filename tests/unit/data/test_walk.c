#include "data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct weir_walk walk_of(uint64_t samples, uint32_t batch_size, bool drop_remainder)
{
    return (struct weir_walk){
        .samples = samples,
        .batch_size = batch_size,
        .replicas = 1,
        .steps_per_epoch = weir_walk_steps(samples, batch_size, drop_remainder),
        .shuffle = true,
        .seed = 11,
    };
}

/* Adds what epoch `epoch` reads to seen[]; returns the number of samples read. */
static uint64_t read_epoch(const struct weir_walk *walk, uint64_t epoch, unsigned *seen)
{
    uint64_t read = 0, *index = calloc(walk->batch_size, sizeof *index);
    for (uint32_t k = 0; k < walk->steps_per_epoch; k++) {
        uint64_t step = epoch * walk->steps_per_epoch + k;
        uint32_t batch = weir_walk_batch(walk, step);
        weir_walk_indices(walk, step, 0, batch, index);
        for (uint32_t i = 0; i < batch; i++)
            seen[index[i]]++;
        read += batch;
    }
    free(index);
    return read;
}

static void every_sample_comes_once_per_epoch(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples < 200; samples += 7)
        for (uint32_t batch_size = 1; batch_size < 70; batch_size += 3)
            for (int shuffle = 0; shuffle < 2; shuffle++) {
                struct weir_walk walk = walk_of(samples, batch_size, false);
                walk.shuffle = shuffle;
                for (uint64_t epoch = 0; epoch < 3; epoch++) {
                    unsigned seen[200] = {0};
                    assert_int_equal(read_epoch(&walk, epoch, seen), samples);
                    for (uint64_t i = 0; i < samples; i++)
                        assert_int_equal(seen[i], 1);
                }
            }
}

static void an_epoch_has_the_samples_of_its_batches(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples < 60; samples += 3)
        for (uint32_t batch_size = 1; batch_size < 70; batch_size += 4)
            for (uint32_t steps = 1; steps < 40; steps += 5) { /* fewer than one pass, or more */
                struct weir_walk walk = walk_of(samples, batch_size, false);
                walk.steps_per_epoch = steps;
                uint64_t sum = 0;
                for (uint64_t step = steps; step < 2 * steps; step++)
                    sum += weir_walk_batch(&walk, step);
                assert_int_equal(weir_walk_epoch_samples(&walk), sum);
            }
}

static void the_last_batch_is_short_or_dropped(void **state)
{
    (void)state;
    assert_int_equal(weir_walk_steps(10, 4, false), 3);
    assert_int_equal(weir_walk_steps(10, 4, true), 2);
    assert_int_equal(weir_walk_steps(8, 4, false), 2);
    assert_int_equal(weir_walk_steps(3, 4, true), 0);
    assert_int_equal(weir_walk_steps(UINT64_MAX, 1, false), UINT32_MAX);
    struct weir_walk walk = walk_of(10, 4, false);
    const uint32_t batches[] = {4, 4, 2, 4, 4, 2};
    for (uint64_t step = 0; step < 6; step++)
        assert_int_equal(weir_walk_batch(&walk, step), batches[step]);
    walk = walk_of(10, 4, true);
    unsigned seen[10] = {0};
    for (uint64_t step = 0; step < 6; step++)
        assert_int_equal(weir_walk_batch(&walk, step), 4);
    assert_int_equal(read_epoch(&walk, 1, seen), 8);
    for (size_t i = 0; i < 10; i++)
        assert_true(seen[i] <= 1);
}

static void epochs_come_in_different_orders(void **state)
{
    (void)state;
    struct weir_walk walk = walk_of(1000, 1000, false);
    uint64_t first[1000], second[1000];
    weir_walk_indices(&walk, 0, 0, 1000, first);
    weir_walk_indices(&walk, 1, 0, 1000, second);
    unsigned same = 0;
    for (size_t i = 0; i < 1000; i++)
        same += first[i] == second[i];
    assert_true(same < 10);
    walk.shuffle = false;
    weir_walk_indices(&walk, 1, 0, 1000, second);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(second[i], i);
}

/* 7 samples, batches of 3, 7 steps an epoch: 3 passes in each, and no batch is short. */
static void a_long_epoch_wraps_round_in_whole_batches(void **state)
{
    (void)state;
    struct weir_walk walk = walk_of(7, 3, false);
    walk.steps_per_epoch = 7;
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        unsigned seen[7] = {0};
        assert_int_equal(read_epoch(&walk, epoch, seen), 21);
        for (size_t i = 0; i < 7; i++)
            assert_int_equal(seen[i], 3);
    }
    walk = walk_of(60000, 60000, false);
    walk.steps_per_epoch = 2; /* the second pass has another order */
    uint64_t first, second;
    unsigned same = 0;
    for (uint32_t i = 0; i < 100; i++) {
        weir_walk_indices(&walk, 0, i, 1, &first);
        weir_walk_indices(&walk, 1, i, 1, &second);
        same += first == second;
    }
    assert_true(same < 5);
}

/* A batch may be larger than the set: it wraps within. */
static void a_batch_larger_than_the_set_wraps_too(void **state)
{
    (void)state;
    struct weir_walk walk = walk_of(3, 10, false);
    assert_int_equal(weir_walk_batch(&walk, 0), 3);
    walk.steps_per_epoch = 3;
    unsigned seen[3] = {0};
    assert_int_equal(read_epoch(&walk, 0, seen), 30);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(seen[i], 10);
}

static void a_short_epoch_reads_a_part(void **state)
{
    (void)state;
    struct weir_walk walk = walk_of(100, 10, false);
    walk.steps_per_epoch = 4;
    unsigned seen[100] = {0};
    assert_int_equal(read_epoch(&walk, 5, seen), 40);
    for (size_t i = 0; i < 100; i++)
        assert_true(seen[i] <= 1);
}

static void any_part_of_a_batch_is_that_part(void **state)
{
    (void)state;
    struct weir_walk walk = walk_of(50, 64, false);
    walk.steps_per_epoch = 9;
    uint64_t whole[64], part[64];
    for (uint64_t step = 0; step < 20; step++) {
        weir_walk_indices(&walk, step, 0, 64, whole);
        for (uint32_t first = 0; first < 64; first += 5) {
            weir_walk_indices(&walk, step, first, 64 - first, part);
            assert_memory_equal(part, whole + first, (64 - first) * sizeof part[0]);
        }
    }
}

static void replicas_partition_every_batch(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas < 40; replicas++)
        for (uint32_t batch = 0; batch < 100; batch++) {
            struct weir_walk walk = {.samples = 1, .batch_size = 100, .replicas = replicas, .steps_per_epoch = 1};
            uint32_t next = 0;
            for (uint32_t r = 0; r < replicas; r++) {
                uint32_t first, count;
                weir_walk_replica(&walk, batch, r, &first, &count);
                assert_int_equal(first, next);
                assert_true(count == batch / replicas || count == (batch + replicas - 1) / replicas);
                next = first + count;
            }
            assert_int_equal(next, batch);
        }
}

static void more_replicas_than_samples_leaves_some_empty(void **state)
{
    (void)state;
    struct weir_walk walk = {.samples = 3, .batch_size = 3, .replicas = UINT32_MAX, .steps_per_epoch = 1};
    uint32_t first, count;
    weir_walk_replica(&walk, 3, 0, &first, &count);
    assert_int_equal(count, 0);
    weir_walk_replica(&walk, 3, UINT32_MAX - 1, &first, &count);
    assert_int_equal(first, 2);
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once_per_epoch),
        cmocka_unit_test(an_epoch_has_the_samples_of_its_batches),
        cmocka_unit_test(the_last_batch_is_short_or_dropped),
        cmocka_unit_test(epochs_come_in_different_orders),
        cmocka_unit_test(a_long_epoch_wraps_round_in_whole_batches),
        cmocka_unit_test(a_batch_larger_than_the_set_wraps_too),
        cmocka_unit_test(a_short_epoch_reads_a_part),
        cmocka_unit_test(any_part_of_a_batch_is_that_part),
        cmocka_unit_test(replicas_partition_every_batch),
        cmocka_unit_test(more_replicas_than_samples_leaves_some_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The layout: every float in one chunk, every chunk at one place, all places alike, all replicas hosted once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/layout.h"

static void every_float_is_in_one_chunk(void **state)
{
    (void)state;
    for (uint64_t flat = 1; flat < 200; flat++)
        for (uint32_t elements = 1; elements < 40; elements++) {
            struct weir_layout layout = weir_layout_make(flat, elements, 2, 3);
            uint64_t at = 0;
            for (uint32_t c = 0; c < layout.chunks; c++) {
                assert_int_equal(weir_layout_first(&layout, c), at);
                uint32_t count = weir_layout_elements(&layout, c);
                assert_true(count > 0 && count <= elements);
                at += count;
            }
            assert_int_equal(at, flat);
        }
}

static void every_chunk_is_at_one_place_under_its_own_number(void **state)
{
    (void)state;
    for (uint32_t chunks = 1; chunks < 60; chunks++)
        for (uint32_t servers = 1; servers < 9; servers++)
            for (uint32_t lanes = 1; lanes < 6; lanes++) {
                struct weir_layout layout = weir_layout_make(chunks, 1, servers, lanes);
                uint8_t seen[60] = {0};
                for (uint32_t l = 0; l < lanes; l++)
                    for (uint32_t i = 0; i < weir_layout_count(&layout, l); i++) {
                        uint32_t chunk = weir_layout_chunk(&layout, l, i);
                        assert_true(chunk < chunks && !seen[chunk]++);
                        assert_int_equal(weir_layout_lane(&layout, chunk), l);
                        assert_int_equal(weir_layout_local(&layout, chunk), i);
                        assert_true(i == 0 || weir_layout_chunk(&layout, l, i - 1) < chunk);
                    }
                for (uint32_t c = 0; c < chunks; c++)
                    assert_int_equal(seen[c], 1);
            }
}

static void servers_and_their_lanes_differ_by_one_chunk_at_most(void **state)
{
    (void)state;
    for (uint32_t chunks = 1; chunks < 60; chunks++)
        for (uint32_t servers = 1; servers < 9; servers++)
            for (uint32_t lanes = 1; lanes < 6; lanes++) {
                struct weir_layout layout = weir_layout_make(chunks, 1, servers, lanes);
                uint32_t least = UINT32_MAX, most = 0, counts[8][5] = {{0}};
                for (uint32_t c = 0; c < chunks; c++)
                    counts[weir_layout_server(&layout, c)][weir_layout_lane(&layout, c)]++;
                for (uint32_t k = 0; k < servers; k++) {
                    uint32_t all = 0, low = UINT32_MAX, high = 0;
                    for (uint32_t l = 0; l < lanes; l++) {
                        uint32_t count = counts[k][l];
                        all += count;
                        low = count < low ? count : low;
                        high = count > high ? count : high;
                    }
                    assert_true(high - low <= 1);
                    least = all < least ? all : least;
                    most = all > most ? all : most;
                }
                assert_true(most - least <= 1);
            }
}

static struct weir_view_chunk holders[1000], of_record;

static void a_standby_is_never_the_primary_and_one_server_has_none(void **state)
{
    (void)state;
    for (uint32_t servers = 1; servers < 9; servers++)
        for (uint32_t copies = 1; copies < 3; copies++) {
            struct weir_layout layout = weir_layout_make(1000, 1, servers, 3);
            weir_layout_hold(&layout, copies, holders, &of_record);
            bool two = copies > 1 && servers > 1;
            for (uint32_t c = 0; c < layout.chunks; c++) {
                assert_int_equal(holders[c].primary, weir_layout_server(&layout, c));
                assert_int_equal(holders[c].lane, weir_layout_lane(&layout, c));
                assert_int_equal(holders[c].filling, WEIR_NO_SERVER);
                assert_true(two ? holders[c].standby < servers : holders[c].standby == WEIR_NO_SERVER);
                assert_int_not_equal(holders[c].standby, holders[c].primary);
                assert_true(weir_holds(&holders[c], holders[c].primary) && !weir_holds(&holders[c], servers));
            }
            assert_int_equal(of_record.primary, 0);
            assert_int_equal(of_record.standby, two ? 1 : WEIR_NO_SERVER);
        }
}

/* So that, when a server is lost, all others take over a like share of what it led. */
static void the_standbys_of_each_server_are_spread_over_all_others(void **state)
{
    (void)state;
    for (uint32_t servers = 2; servers < 9; servers++) {
        struct weir_layout layout = weir_layout_make(1000, 1, servers, 3);
        weir_layout_hold(&layout, 2, holders, &of_record);
        uint32_t led[8][8] = {{0}};
        for (uint32_t c = 0; c < layout.chunks; c++)
            led[holders[c].primary][holders[c].standby]++;
        for (uint32_t k = 0; k < servers; k++)
            for (uint32_t i = 0; i < servers; i++)
                for (uint32_t j = 0; i != k && j < servers; j++)
                    assert_true(j == k || led[k][i] <= led[k][j] + 1);
    }
}

static void hosts_partition_the_replicas_evenly(void **state)
{
    (void)state;
    bool present[90];
    uint32_t hosts[70];
    memset(present, true, sizeof present);
    for (uint32_t replicas = 1; replicas < 70; replicas++)
        for (uint32_t workers = 1; workers < 90; workers++) {
            uint32_t used = workers < replicas ? workers : replicas;
            weir_layout_place(hosts, replicas, present, workers);
            for (uint32_t r = 0; r < replicas; r++)
                assert_int_equal(hosts[r], r * used / replicas);
            for (uint32_t w = 0; w < workers; w++) {
                uint32_t count = weir_layout_hosted(hosts, replicas, w);
                assert_true(w < used ? count >= replicas / used && count <= (replicas + used - 1) / used : count == 0);
            }
        }
}

/* As if the others were numbered through. */
static void those_that_are_not_there_host_nothing(void **state)
{
    (void)state;
    enum { WORKERS = 7, REPLICAS = 12 };
    for (uint32_t there = 0; there < 1u << WORKERS; there++) {
        bool present[WORKERS], all[WORKERS] = {true, true, true, true, true, true, true};
        uint32_t numbers[WORKERS], hosts[REPLICAS], expected[REPLICAS], count = 0;
        for (uint32_t w = 0; w < WORKERS; w++) {
            present[w] = there >> w & 1;
            if (present[w])
                numbers[count++] = w;
        }
        weir_layout_place(hosts, REPLICAS, present, WORKERS);
        weir_layout_place(expected, REPLICAS, all, count);
        for (uint32_t r = 0; r < REPLICAS; r++)
            assert_int_equal(hosts[r], count ? numbers[expected[r]] : WEIR_NO_HOST);
    }
}

static void large_models_do_not_overflow(void **state)
{
    (void)state;
    struct weir_layout layout = weir_layout_make(UINT64_C(1) << 40, 1 << 18, 7, 5);
    uint32_t last = layout.chunks - 1;
    assert_int_equal(layout.chunks, 1 << 22);
    assert_int_equal(weir_layout_elements(&layout, last), 1 << 18);
    assert_true(weir_layout_first(&layout, last) == (UINT64_C(1) << 40) - (1 << 18));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_float_is_in_one_chunk),
        cmocka_unit_test(every_chunk_is_at_one_place_under_its_own_number),
        cmocka_unit_test(servers_and_their_lanes_differ_by_one_chunk_at_most),
        cmocka_unit_test(a_standby_is_never_the_primary_and_one_server_has_none),
        cmocka_unit_test(the_standbys_of_each_server_are_spread_over_all_others),
        cmocka_unit_test(hosts_partition_the_replicas_evenly),
        cmocka_unit_test(those_that_are_not_there_host_nothing),
        cmocka_unit_test(large_models_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

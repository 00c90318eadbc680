#include "chaos/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"

#define SWARM_FIRST 0.05 /* of the job's steps: moments of a swarm lie between */
#define SWARM_LAST 0.8

/* What a random number is for: each choice has its own, so that one more does not change the others. */
enum choice { MOMENT, WITHIN, KIND, NODE, NODE_ROLE, NODE_INDEX, PEER, PEER_INDEX, WAYS, LENGTH, STRENGTH };

/* [0, 1) */
static double draw(uint64_t seed, enum choice choice, uint64_t number)
{
    uint32_t words[4];
    weir_random_block(weir_random_key(seed, WEIR_RANDOM_CHAOS, (uint32_t)choice, number), 0, 0, words);
    return (double)words[0] / 4294967296.0;
}

static uint32_t pick(double unit, uint32_t count)
{
    assert(count > 0);
    return (uint32_t)(unit * count);
}

uint32_t weir_chaos_nodes(const struct weir_chaos_scenario *scenario)
{
    return 1 + scenario->ps + scenario->workers;
}

uint32_t weir_chaos_node(const struct weir_chaos_scenario *scenario, enum weir_role role, uint32_t index)
{
    return role == WEIR_CHIEF ? 0 : role == WEIR_PS ? 1 + index : 1 + scenario->ps + index;
}

void weir_chaos_node_name(const struct weir_chaos_scenario *scenario, uint32_t node, char *name, size_t name_bytes)
{
    assert(node < weir_chaos_nodes(scenario));
    enum weir_role role = node == 0 ? WEIR_CHIEF : node <= scenario->ps ? WEIR_PS : WEIR_WORKER;
    snprintf(name, name_bytes, "%s/%u", weir_role_names[role], node - weir_chaos_node(scenario, role, 0));
}

/* ---- whom */

static uint32_t resolve(const struct weir_chaos_scenario *scenario, const struct weir_chaos_target *target, double role,
                        double index)
{
    if (target->any_role)
        return pick(role, weir_chaos_nodes(scenario));
    uint32_t count = target->role == WEIR_CHIEF ? 1 : target->role == WEIR_PS ? scenario->ps : scenario->workers;
    return weir_chaos_node(scenario, target->role, target->any_index ? pick(index, count) : target->index);
}

/* The peer, another process than `node`: of several, the next one where the seed chose the node itself. */
static uint32_t resolve_peer(const struct weir_chaos_scenario *scenario, const struct weir_chaos_target *target,
                             uint32_t node, uint64_t seed, uint64_t number)
{
    if (target->none)
        return WEIR_CHAOS_ALL;
    uint32_t peer = resolve(scenario, target, draw(seed, PEER, number), draw(seed, PEER_INDEX, number));
    return peer != node ? peer : (peer + 1) % weir_chaos_nodes(scenario);
}

/* ---- the list */

static void expand(const struct weir_chaos_scenario *scenario, const struct weir_chaos_entry *entry, uint64_t seed,
                   struct weir_chaos_fault *faults, size_t *count)
{
    for (uint32_t i = 0; i < entry->times; i++) {
        uint64_t number = *count;
        uint32_t node = resolve(scenario, &entry->node, draw(seed, NODE_ROLE, number), draw(seed, NODE_INDEX, number));
        faults[(*count)++] = (struct weir_chaos_fault){
            .kind = entry->kind,
            .node = node,
            .peer = resolve_peer(scenario, &entry->peer, node, seed, number),
            .ways = entry->ways,
            .at_step = entry->at_step ? entry->at_step + (uint64_t)i * entry->every_steps : 0,
            .at_s = entry->at_s + i * entry->every_s,
            .within = entry->at_step ? draw(seed, WITHIN, number) : 0,
            .for_s = entry->for_s,
            .after_s = entry->after_s,
            .delay_ms = entry->delay_ms,
            .jitter_ms = entry->jitter_ms,
            .bytes_per_s = entry->bytes_per_s,
            .share = entry->share,
        };
    }
}

/* ---- the swarm */

static enum weir_chaos_kind pick_kind(uint32_t kinds, double unit)
{
    uint32_t count = 0, chosen;
    for (uint32_t k = 0; k < WEIR_CHAOS_KINDS; k++)
        count += kinds >> k & 1;
    chosen = pick(unit, count);
    for (uint32_t k = 0; k < WEIR_CHAOS_KINDS; k++)
        if (kinds >> k & 1 && chosen-- == 0)
            return (enum weir_chaos_kind)k;
    assert(!"a swarm without kinds");
    return WEIR_CHAOS_RESET;
}

bool weir_chaos_ends_process(const struct weir_chaos_fault *fault)
{
    return fault->kind == WEIR_CHAOS_KILL || fault->kind == WEIR_CHAOS_RESTART || fault->kind == WEIR_CHAOS_TERMINATE;
}

uint32_t weir_chaos_restarts_of_one(const struct weir_chaos_fault *plan, size_t count)
{
    uint32_t restarts[WEIR_CHAOS_NODES_MAX] = {0}, most = 0;
    for (size_t i = 0; i < count; i++)
        if (weir_chaos_ends_process(&plan[i]) && plan[i].after_s > 0 && ++restarts[plan[i].node] > most)
            most = restarts[plan[i].node];
    return most;
}

static struct weir_chaos_fault swarm_fault(const struct weir_chaos_scenario *scenario, uint64_t seed, uint64_t steps,
                                           uint64_t number)
{
    const struct weir_chaos_swarm *swarm = &scenario->swarm;
    const struct weir_chaos_target *target = &swarm->nodes[pick(draw(seed, NODE, number), (uint32_t)swarm->node_count)];
    enum weir_chaos_kind kind = pick_kind(swarm->kinds, draw(seed, KIND, number));
    double moment = SWARM_FIRST + (SWARM_LAST - SWARM_FIRST) * draw(seed, MOMENT, number);
    double strength = draw(seed, STRENGTH, number);
    struct weir_chaos_fault fault = {
        .kind = kind,
        .node = resolve(scenario, target, draw(seed, NODE_ROLE, number), draw(seed, NODE_INDEX, number)),
        .peer = WEIR_CHAOS_ALL,
        .at_step = 1 + (uint64_t)(moment * (double)steps),
        .within = draw(seed, WITHIN, number),
        .for_s = swarm->for_s * (0.25 + 0.75 * draw(seed, LENGTH, number)),
    };
    bool restarts = weir_chaos_ends_process(&fault);
    bool network = kind == WEIR_CHAOS_PARTITION || kind == WEIR_CHAOS_DELAY || kind == WEIR_CHAOS_BANDWIDTH;
    if (restarts) /* a swarm must not run out of processes */
        fault.after_s = fault.for_s;
    if (restarts || kind == WEIR_CHAOS_RESET)
        fault.for_s = 0;
    if (network || kind == WEIR_CHAOS_RESET) {
        uint32_t other = pick(draw(seed, PEER, number), weir_chaos_nodes(scenario));
        fault.peer = other == fault.node ? WEIR_CHAOS_ALL : other;
    }
    if (network)
        fault.ways = (enum weir_chaos_ways)pick(draw(seed, WAYS, number), 3);
    if (kind == WEIR_CHAOS_DELAY)
        fault.delay_ms = fault.jitter_ms = 1 + 20 * strength;
    if (kind == WEIR_CHAOS_BANDWIDTH)
        fault.bytes_per_s = 1e6 + 2e7 * strength;
    if (kind == WEIR_CHAOS_SLOW_CPU)
        fault.share = 0.1 + 0.4 * strength;
    return fault;
}

static int by_step(const void *a, const void *b)
{
    const struct weir_chaos_fault *left = a, *right = b;
    if (left->at_step != right->at_step)
        return left->at_step < right->at_step ? -1 : 1;
    return left->within < right->within ? -1 : left->within > right->within;
}

struct weir_chaos_fault *weir_chaos_plan(const struct weir_chaos_scenario *scenario, uint64_t seed, uint64_t steps,
                                         size_t *count)
{
    size_t room = scenario->swarm.faults;
    for (size_t i = 0; i < scenario->entry_count; i++)
        room += scenario->entries[i].times;
    struct weir_chaos_fault *faults = weir_alloc(room + 1, sizeof *faults, "the plan");
    *count = 0;
    for (size_t i = 0; i < scenario->entry_count; i++)
        expand(scenario, &scenario->entries[i], seed, faults, count);
    size_t listed = *count;
    for (uint32_t i = 0; i < scenario->swarm.faults; i++, ++*count)
        faults[*count] = swarm_fault(scenario, seed, steps, *count);
    assert(*count == room);
    qsort(faults + listed, room - listed, sizeof *faults, by_step);
    return faults;
}

/* ---- in words */

static void describe_network(const struct weir_chaos_fault *fault, const char *node, const char *peer,
                             struct weir_text *out)
{
    const char *joins[] = {"between", "from", "to"}, *seconds[] = {"and", "to", "from"};
    if (fault->kind == WEIR_CHAOS_DELAY)
        weir_text_add(out, "delay %.3g ms", fault->delay_ms);
    else if (fault->kind == WEIR_CHAOS_BANDWIDTH)
        weir_text_add(out, "at most %.3g MB/s", fault->bytes_per_s / 1e6);
    else if (fault->kind == WEIR_CHAOS_RESET)
        weir_text_add(out, "reset connections");
    else
        weir_text_add(out, "cut");
    if (fault->kind == WEIR_CHAOS_DELAY && fault->jitter_ms > 0)
        weir_text_add(out, " (+ up to %.3g ms)", fault->jitter_ms);
    weir_text_add(out, " %s %s %s %s", joins[fault->ways], node, seconds[fault->ways], peer);
}

void weir_chaos_describe(const struct weir_chaos_scenario *scenario, const struct weir_chaos_fault *fault, char *text,
                         size_t text_bytes)
{
    struct weir_text out = {0};
    char node[32], peer[32] = "all others";
    weir_chaos_node_name(scenario, fault->node, node, sizeof node);
    if (fault->peer != WEIR_CHAOS_ALL)
        weir_chaos_node_name(scenario, fault->peer, peer, sizeof peer);
    switch (fault->kind) {
    case WEIR_CHAOS_KILL:
    case WEIR_CHAOS_RESTART:
    case WEIR_CHAOS_STOP:
        weir_text_add(&out, "%s %s", weir_chaos_kinds[fault->kind].name, node);
        break;
    case WEIR_CHAOS_TERMINATE:
        weir_text_add(&out, "SIGTERM to %s", node);
        break;
    case WEIR_CHAOS_FULL_DISK:
        weir_text_add(&out, "full disk for %s", node);
        break;
    case WEIR_CHAOS_SLOW_CPU:
        weir_text_add(&out, "%s gets %.0f %% of the time", node, 100 * fault->share);
        break;
    default:
        describe_network(fault, node, peer, &out);
    }
    if (fault->for_s > 0)
        weir_text_add(&out, " for %.3g s", fault->for_s);
    if (fault->after_s > 0)
        weir_text_add(&out, ", started again after %.3g s", fault->after_s);
    snprintf(text, text_bytes, "%s", out.bytes);
    free(out.bytes);
}

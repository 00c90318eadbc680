/* The fixed binary tree over replica numbers: the one shape in which a step's gradients are summed.
 *
 * Node (level, index) covers the replicas [index * 2^level, min((index + 1) * 2^level, R)). Two names can cover the
 * same replicas when R cuts a node short; they mean the same sum. A set of held nodes is kept disjoint: an arrival
 * below a held node is dropped, one above replaces what it covers. Empty and missing children pass the other through.
 */
#ifndef WEIR_PROTOCOL_TREE_H
#define WEIR_PROTOCOL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_REPLICAS_MAX 1024

struct weir_tree_node {
    uint32_t level, index;
};

/* First replica and number of replicas of a node; false if the node is not in the tree of R replicas. */
bool weir_tree_range(uint32_t replicas, struct weir_tree_node node, uint32_t *first, uint32_t *count);

/* Replicas in the left child of a subtree of `count` > 1 replicas that starts at a multiple of its size: the largest
 * power of two below count. */
uint32_t weir_tree_left(uint32_t count);

/* The largest nodes that these replicas (ascending, each once) make whole, in replica order. Writes at most `count`
 * nodes; returns their number. */
size_t weir_tree_cover(uint32_t replicas, const uint32_t *list, size_t count, struct weir_tree_node *nodes);

/* ---- what a holder has of one sum */

struct weir_held_node {
    uint32_t count; /* replicas covered, from the slot's own on; 0: no node starts here */
    bool empty;     /* no sample: no payload */
    uint64_t payload;
};

struct weir_tree {
    uint32_t replicas;
    uint32_t covered;             /* replicas covered so far */
    struct weir_held_node *first; /* by first replica */
};

enum weir_tree_answer { WEIR_TREE_HELD, WEIR_TREE_DROPPED };

/* Adds a node. When HELD, payloads of nodes that it replaced are written to replaced[0..*replaced_count) (room for
 * `replicas`); when DROPPED nothing changes. The node must be in the tree. */
enum weir_tree_answer weir_tree_add(struct weir_tree *tree, struct weir_tree_node node, bool empty, uint64_t payload,
                                    uint64_t *replaced, size_t *replaced_count);
bool weir_tree_complete(const struct weir_tree *tree);
/* Forgets all nodes; their payloads are the caller's. */
void weir_tree_clear(struct weir_tree *tree);

#define WEIR_TREE_ADD (-1)
/* The sum of a complete tree as a postfix program: value v >= 0 pushes the payload held at first replica v,
 * WEIR_TREE_ADD adds the two topmost. Room for 2 * replicas values. Returns the length; 0: nothing but empties. */
size_t weir_tree_program(const struct weir_tree *tree, int16_t *code);

/* Sums one number per replica (present[r] false: passed through) along the tree; 0 if none is present. */
double weir_tree_sum(uint32_t replicas, const double *number, size_t stride, const bool *present);

#endif

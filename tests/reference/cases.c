#include "reference/cases.h"

#include <math.h>

#define DENSE(positions_, in_, out_, bias_, relu_)                                                                     \
    {                                                                                                                  \
        .kind = WEIR_OP_DENSE, .in = (positions_) * (in_), .out = (positions_) * (out_), .positions = positions_,      \
        .in_width = in_, .out_width = out_, .has_bias = bias_, .relu = relu_                                           \
    }
#define WINDOWS(kind_, h, w, c, rh, rw, rc, kh, kw, sh, sw, top, left)                                                 \
    .kind = kind_, .in = (h) * (w) * (c), .out = (rh) * (rw) * (rc), .image = {h, w, c}, .result = {rh, rw, rc},       \
    .kernel_h = kh, .kernel_w = kw, .stride_h = sh, .stride_w = sw, .pad_top = top, .pad_left = left
#define ELEMENTWISE(...)                                                                                               \
    {                                                                                                                  \
        .kind = WEIR_OP_ACTIVATION, .in = 203, .out = 203, .activation = { __VA_ARGS__ }                               \
    }

static const struct weir_op_case cases[] = {
    {"dense 1x1", DENSE(1, 1, 1, true, false)},
    {"dense 7x3", DENSE(1, 7, 3, true, true)},
    {"dense 37x10", DENSE(1, 37, 10, true, false)},
    {"dense 33x65 without bias", DENSE(1, 33, 65, false, true)},
    {"dense 130x257", DENSE(1, 130, 257, true, true)},
    {"dense over 5 positions", DENSE(5, 9, 6, true, true)},
    {"conv valid 3x3, 1 channel", {WINDOWS(WEIR_OP_CONV2D, 9, 8, 1, 7, 6, 5, 3, 3, 1, 1, 0, 0), .has_bias = true}},
    {"conv valid 3x3, 1 channel, relu, 32",
     {WINDOWS(WEIR_OP_CONV2D, 12, 12, 1, 10, 10, 32, 3, 3, 1, 1, 0, 0), .has_bias = true, .relu = true}},
    {"conv same 3x3, 3 channels", {WINDOWS(WEIR_OP_CONV2D, 7, 9, 3, 7, 9, 4, 3, 3, 1, 1, 1, 1), .has_bias = true}},
    {"conv same 2x4, uneven padding", {WINDOWS(WEIR_OP_CONV2D, 6, 7, 2, 6, 7, 3, 2, 4, 1, 1, 0, 1)}},
    {"conv valid 3x2, strides 2x3, relu",
     {WINDOWS(WEIR_OP_CONV2D, 10, 11, 16, 4, 4, 17, 3, 2, 2, 3, 0, 0), .has_bias = true, .relu = true}},
    {"conv same 5x5, stride 2", {WINDOWS(WEIR_OP_CONV2D, 8, 7, 4, 4, 4, 6, 5, 5, 2, 2, 1, 2), .has_bias = true}},
    {"conv same 1x1, stride 3", {WINDOWS(WEIR_OP_CONV2D, 8, 7, 4, 3, 3, 6, 1, 1, 3, 3, 0, 0), .has_bias = true}},
    {"conv 16 to 32 channels",
     {WINDOWS(WEIR_OP_CONV2D, 8, 8, 16, 8, 8, 32, 3, 3, 1, 1, 1, 1), .has_bias = true, .relu = true}},
    {"first conv of 1 channel",
     {WINDOWS(WEIR_OP_CONV2D, 9, 8, 1, 7, 5, 19, 3, 4, 1, 1, 0, 0), .first = true, .has_bias = true, .relu = true}},
    {"first conv of 1 channel, without bias and relu",
     {WINDOWS(WEIR_OP_CONV2D, 9, 8, 1, 5, 6, 32, 5, 3, 1, 1, 0, 0), .first = true}},
    {"first conv of 1 channel, same",
     {WINDOWS(WEIR_OP_CONV2D, 9, 8, 1, 9, 8, 7, 3, 3, 1, 1, 1, 1), .first = true, .has_bias = true, .relu = true}},
    {"first conv of 1 channel, relu and global max",
     {.kind = WEIR_OP_CONV2D_GLOBAL_MAX,
      .in = 9 * 8,
      .out = 19,
      .image = {9, 8, 1},
      .result = {7, 5, 19},
      .kernel_h = 3,
      .kernel_w = 4,
      .stride_h = 1,
      .stride_w = 1,
      .first = true,
      .has_bias = true,
      .relu = true}},
    {"max pool 2x2", {WINDOWS(WEIR_OP_MAX_POOL2D, 7, 6, 3, 3, 3, 3, 2, 2, 2, 2, 0, 0)}},
    {"max pool 3x2 overlapping, same", {WINDOWS(WEIR_OP_MAX_POOL2D, 7, 6, 17, 7, 6, 17, 3, 2, 1, 1, 1, 0)}},
    {"average pool 2x2", {WINDOWS(WEIR_OP_AVERAGE_POOL2D, 7, 6, 3, 3, 3, 3, 2, 2, 2, 2, 0, 0)}},
    {"average pool 3x3 same, stride 2", {WINDOWS(WEIR_OP_AVERAGE_POOL2D, 7, 6, 18, 4, 3, 18, 3, 3, 2, 2, 1, 0)}},
    {"global max", {.kind = WEIR_OP_GLOBAL_MAX_POOL, .in = 5 * 7 * 19, .out = 19, .image = {5, 7, 19}}},
    {"global average", {.kind = WEIR_OP_GLOBAL_AVERAGE_POOL, .in = 5 * 7 * 19, .out = 19, .image = {5, 7, 19}}},
    {"relu", ELEMENTWISE(.kind = WEIR_ACTIVATION_RELU, .max_value = INFINITY)},
    {"relu with all it has",
     ELEMENTWISE(.kind = WEIR_ACTIVATION_RELU, .max_value = 1.5f, .negative_slope = 0.1f, .threshold = 0.5f)},
    {"sigmoid", ELEMENTWISE(.kind = WEIR_ACTIVATION_SIGMOID)},
    {"tanh", ELEMENTWISE(.kind = WEIR_ACTIVATION_TANH)},
    {"elu", ELEMENTWISE(.kind = WEIR_ACTIVATION_ELU, .alpha = 0.7f)},
    {"selu", ELEMENTWISE(.kind = WEIR_ACTIVATION_SELU)},
    {"gelu", ELEMENTWISE(.kind = WEIR_ACTIVATION_GELU)},
    {"gelu by tanh", ELEMENTWISE(.kind = WEIR_ACTIVATION_GELU_TANH)},
    {"softplus", ELEMENTWISE(.kind = WEIR_ACTIVATION_SOFTPLUS)},
    {"softsign", ELEMENTWISE(.kind = WEIR_ACTIVATION_SOFTSIGN)},
    {"silu", ELEMENTWISE(.kind = WEIR_ACTIVATION_SILU)},
    {"exponential", ELEMENTWISE(.kind = WEIR_ACTIVATION_EXPONENTIAL)},
    {"softmax", {.kind = WEIR_OP_SOFTMAX, .in = 30, .out = 30, .positions = 3, .in_width = 10, .out_width = 10}},
    {"scale", {.kind = WEIR_OP_SCALE, .in = 19, .out = 19, .scale = 0.25f, .offset = -1.5f}},
};

bool weir_op_case(size_t i, struct weir_op_case *out)
{
    if (i >= sizeof cases / sizeof *cases)
        return false;
    *out = cases[i];
    return true;
}

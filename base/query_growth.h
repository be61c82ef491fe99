// Growth of queries with the position, which layers without rotary positions of Llama 4 have: an
// FtRope that rotates nothing. Device kernels share it.
#pragma once

#include "base/device_api.h"

// An FtRope with theta 0 multiplies all elements of a head at position p by
// 1 + factor * ln(1 + floor((p + 1) / original)), with and without inverse: the backward pass takes
// the same product. stretch must be FT_ROPE_PLAIN; low, high and magnitude have no effect.
#define FT_ROPE_GROWS(rope) ((rope).theta == 0.0F)

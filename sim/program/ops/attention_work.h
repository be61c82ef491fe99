// Arithmetic and traffic of attention ops (op_work.h).
#pragma once

#include "sim/program/ops/op_work.h"

namespace foretrain {

// Work of every kind of attention.
OpWork AttentionWork(const Op& op);

}  // namespace foretrain

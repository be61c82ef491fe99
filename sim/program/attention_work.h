// Arithmetic and traffic of attention ops (op.h: OpWork).
#pragma once

#include "sim/program/op.h"

namespace foretrain {

// Of kAttentionForward and -Backward, of kStandardAttention... and of kAttentionPart...
OpWork AttentionWork(const Op& op);

}  // namespace foretrain

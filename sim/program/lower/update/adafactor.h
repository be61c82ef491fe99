// Adafactor: updates with a second moment of rows and columns (Shazeer and Stern 2018).
#pragma once

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// Steps that update a bucket. Its tensors may lie on several ranks in parts: tensor parallelism
// splits rows or columns, and ZeRO cuts the bucket anywhere. Each rank sums the squares of its
// parts by rows and by columns, the ranks add up the sums, and all of them compute the same
// moments, which they hold whole: a number for each row and column. A second sum gives the size of
// the update. So ranks exchange these few numbers and no gradients.
Skeleton AdafactorSteps(const LowerContext& context, int bucket);

}  // namespace foretrain

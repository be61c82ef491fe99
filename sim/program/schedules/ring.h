// Assigns buffers to micro-batches in schedules whose steps overlap. Buffers live for the whole
// run, and micro-batches that are never in flight together share one.
#pragma once

#include <algorithm>

namespace foretrain {

// Buffers for a tensor of each of `m` micro-batches per step, of which any `life` consecutive ones
// are in flight together, across steps too; 1 <= life <= m. Micro-batches are cut into m / life
// rows of equal length, or one more, and those of a column share a buffer. So there are `life`
// buffers if `life` divides m, and a few more if m is large.
class Ring {
 public:
  Ring(int m, int life) : m_(m), rows_(std::max(1, m / life)) {}

  int Size() const { return (m_ + rows_ - 1) / rows_; }

  // Buffer of a micro-batch in [0, m): its distance from the start of its row.
  int PlaceOf(int micro_batch) const {
    int row = micro_batch * rows_ / m_;
    if (Begin(row + 1) <= micro_batch) ++row;
    return micro_batch - Begin(row);
  }

 private:
  int Begin(int row) const { return static_cast<int>(static_cast<long long>(row) * m_ / rows_); }

  int m_;
  int rows_;
};

}  // namespace foretrain

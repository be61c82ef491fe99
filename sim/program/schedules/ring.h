// Places for tensors of micro-batches where steps overlap: each has one for the whole run, and
// those that are never in flight together share it.
#pragma once

#include <algorithm>

namespace foretrain {

// A tensor of each of `m` micro-batches a step, of which any `life` that follow each other, from
// step to step too, are in flight together; 1 <= life <= m. Micro-batches are cut into m / life
// rows of equal length, or one more, that lie below one another: those of a column share a place.
// So there are `life` places where it divides m, and few more where m is large.
class Ring {
 public:
  Ring(int m, int life) : m_(m), rows_(std::max(1, m / life)) {}

  int Size() const { return (m_ + rows_ - 1) / rows_; }

  // Place of a micro-batch in [0, m): its distance from the beginning of its row.
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

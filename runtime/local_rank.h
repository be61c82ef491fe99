// A rank that this process runs, and the device it computes on.
#pragma once

namespace foretrain {

struct LocalRank {
  int rank = 0;
  int device = 0;
  bool operator==(const LocalRank&) const = default;
};

}  // namespace foretrain

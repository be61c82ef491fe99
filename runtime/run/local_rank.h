// A rank of this process and its device.
#pragma once

namespace foretrain {

struct LocalRank {
  int rank = 0;
  int device = 0;
  bool operator==(const LocalRank&) const = default;
};

}  // namespace foretrain

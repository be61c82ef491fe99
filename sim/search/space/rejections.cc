// Counts plans that a search leaves out, by reason.
#include <string>

#include "sim/search/space/space.h"

namespace foretrain {

// Linear in the reasons, of which there are about ten. The first example of a reason is kept.
void Rejections::Add(std::string_view reason, std::int64_t count, const std::string& example) {
  if (count == 0) return;
  for (Rejection& rejection : list_) {
    if (rejection.reason == reason) {
      rejection.count += count;
      if (rejection.example.empty()) rejection.example = example;
      return;
    }
  }
  list_.push_back({std::string(reason), count, example});
}

void Rejections::Add(const Rejections& others) {
  for (const Rejection& other : others.list_) Add(other.reason, other.count, other.example);
}

std::int64_t Rejections::count() const {
  std::int64_t sum = 0;
  for (const Rejection& rejection : list_) sum += rejection.count;
  return sum;
}

}  // namespace foretrain

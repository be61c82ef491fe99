#include "sim/search/space/layouts.h"

#include <algorithm>

namespace foretrain {
namespace {

constexpr double kTied = 1.25;

}  // namespace

bool HasSameLayout(const Plan& a, const Plan& b) {
  return a.tp == b.tp && a.pp == b.pp && a.cp == b.cp && a.ep == b.ep;
}

std::vector<Candidate> OtherLayouts(const std::vector<Candidate>& sorted, std::size_t max) {
  std::vector<Candidate> some = {sorted.front()};
  for (const Candidate& candidate : sorted) {
    if (candidate.estimate.step_s > kTied * sorted.front().estimate.step_s) break;
    if (some.size() > max) break;
    const auto same = [&](const Candidate& other) {
      return HasSameLayout(candidate.plan, other.plan);
    };
    if (std::none_of(some.begin(), some.end(), same)) some.push_back(candidate);
  }
  some.erase(some.begin());
  return some;
}

}  // namespace foretrain

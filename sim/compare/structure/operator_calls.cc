#include "sim/compare/structure/operator_calls.h"

namespace foretrain {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// The heavy calls within a frame that run in no other call.
struct Inside {
  int heavy = 0;
  std::size_t longest = kNone;
};

// The call around each call; kNone: there is none. A call with one piece runs no others, so that
// kernels that overlap on several streams are not taken for nested ones.
std::vector<std::size_t> CallsAround(const std::vector<OperatorCall>& calls) {
  std::vector<std::size_t> around(calls.size(), kNone), stack;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    while (!stack.empty() && calls[stack.back()].end_ns < calls[i].end_ns) stack.pop_back();
    if (!stack.empty()) around[i] = stack.back();
    if (calls[i].pieces > 1) stack.push_back(i);
  }
  return around;
}

}  // namespace

std::vector<std::size_t> OutermostCalls(const std::vector<OperatorCall>& calls) {
  const std::vector<std::size_t> around = CallsAround(calls);
  // First as if frames never were outermost.
  std::vector<std::size_t> outermost(calls.size());
  std::vector<std::int64_t> busy(calls.size());
  std::vector<bool> is_heavy(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::size_t outer = around[i];
    const bool stays = outer == kNone || calls[outer].is_frame;
    outermost[i] = stays ? i : outermost[outer];
    busy[outermost[i]] += calls[i].busy_ns;
    if (calls[i].is_heavy) is_heavy[outermost[i]] = true;
  }
  std::vector<Inside> inside(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (outermost[i] != i || calls[i].is_frame || !is_heavy[i]) continue;
    for (std::size_t frame = around[i]; frame != kNone; frame = around[frame]) {
      Inside& of = inside[frame];
      ++of.heavy;
      if (of.longest == kNone || busy[i] > busy[of.longest]) of.longest = i;
    }
  }
  // From the outside in, so that a frame within a frame is a part of that.
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::size_t outer = around[i];
    if (outer != kNone && (!calls[outer].is_frame || inside[outer].heavy <= 1)) {
      outermost[i] = outermost[outer];
    } else {
      outermost[i] = calls[i].is_frame && inside[i].heavy > 1 ? inside[i].longest : i;
    }
  }
  for (std::size_t i = 0; i < calls.size(); ++i) outermost[i] = outermost[outermost[i]];
  return outermost;
}

}  // namespace foretrain

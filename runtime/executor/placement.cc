#include "runtime/executor/placement.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "sim/program/ir/groups.h"
#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

// Degrees in the order in which DescribeGroups prints them. A group of kNext is a pair of pipeline
// neighbours.
struct Degree {
  const char* name;
  GroupKind kind;
};
constexpr std::array kDegrees = {Degree{"tp", GroupKind::kTp}, Degree{"cp", GroupKind::kCp},
                                 Degree{"ep", GroupKind::kEp}, Degree{"dp", GroupKind::kDp},
                                 Degree{"pp", GroupKind::kNext}};

std::string TextOf(const std::vector<int>& slots) {
  std::string text;
  for (const int slot : slots) text += (text.empty() ? "" : " ") + std::to_string(slot);
  return text;
}

}  // namespace

// Slot s of n gets cores [s * all / n, (s + 1) * all / n), at least one, so that neighbouring slots
// have neighbouring cores.
std::vector<RankSlot> SlotsOf(const Program& program, const std::vector<int>& cores) {
  FT_CHECK(!cores.empty());
  std::vector<RankSlot> slots;
  for (const RankProgram& rank : program.ranks) {
    slots.push_back({rank.rank, DeviceOf(program.plan, rank.rank), {}});
  }
  std::sort(slots.begin(), slots.end(),
            [](const RankSlot& a, const RankSlot& b) { return a.slot < b.slot; });
  const std::size_t n = slots.size(), all = cores.size();
  for (std::size_t s = 0; s < n; ++s) {
    const std::size_t first = s * all / n;
    const std::size_t end = std::max(first + 1, (s + 1) * all / n);
    for (std::size_t c = first; c < end; ++c) slots[s].cores.push_back(cores[c]);
  }
  return slots;
}

// The affinity of the process counts and not the number of cores: containers and batch systems
// restrict it.
std::vector<int> UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

Result<void> PinThread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return {};
  return Fail(ErrorCode::kIo, "keep a thread on cores " + TextOf(cores) + ": " +
                                  std::strerror(errno) + "; leave out --pin");
}

// All ranks are walked because each knows only its own groups. `seen` drops the groups that an
// earlier member has printed.
std::string DescribeGroups(const Plan& plan, int max) {
  std::string text;
  for (const Degree& degree : kDegrees) {
    std::set<std::vector<int>> seen;
    std::string groups;
    for (int rank = 0; rank < plan.World(); ++rank) {
      const std::vector<int> members = GroupMembers(plan, CoordinatesOf(plan, rank), degree.kind);
      if (members.size() < 2 || !seen.insert(members).second) continue;
      if (static_cast<int>(seen.size()) > max) {
        groups += " ...";
        break;
      }
      groups += (groups.empty() ? "" : ", ") + TextOf(DevicesOf(plan, members));
    }
    if (groups.empty()) continue;
    text += (text.empty() ? "" : "; ") + std::string(degree.name) + " " + groups;
  }
  return text;
}

}  // namespace foretrain

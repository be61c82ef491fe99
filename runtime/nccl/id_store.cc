#include "runtime/nccl/id_store.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>

#include "base/units.h"

namespace foretrain {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);  // how often it asks whether all is over

}  // namespace

Result<void> ThreadIdStore::Put(const std::string& name, const std::string& value) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[name] = value;
  }
  put_.notify_all();
  return {};
}

Result<std::string> ThreadIdStore::Get(const std::string& name,
                                       const std::function<bool()>& over) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns_);
  std::unique_lock<std::mutex> lock(mutex_);
  while (values_.count(name) == 0) {
    const auto now = std::chrono::steady_clock::now();
    if (over && over()) return Fail(ErrorCode::kAborted, "stopped while it waited for " + name);
    if (now >= deadline) {
      return Fail(ErrorCode::kTimeout, "nobody has told of " + name + " within " +
                                           FormatSeconds(SecondsFromNs(timeout_ns_)));
    }
    put_.wait_until(lock, std::min(deadline, now + kLook));
  }
  return values_[name];
}

namespace {

Result<int> NumberOf(const char* (*get)(const char*), const char* name, int least, int most) {
  const char* const text = get(name);
  if (text == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + " is not set, but RANK is; launchers set both");
  }
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error == std::errc() && rest == end && value >= least && value <= most) return value;
  return Fail(ErrorCode::kInvalidArgument, std::string(name) + " is \"" + text + "\"; it is from " +
                                               std::to_string(least) + " to " +
                                               std::to_string(most));
}

}  // namespace

Result<LaunchedRank> ReadLaunchedRank(const char* (*get)(const char* name)) {
  LaunchedRank at;
  if (get("RANK") == nullptr) return at;
  FT_ASSIGN(at.world, NumberOf(get, "WORLD_SIZE", 1, 1 << 20));
  FT_ASSIGN(at.rank, NumberOf(get, "RANK", 0, at.world - 1));
  const char* const address = get("MASTER_ADDR");
  if (address == nullptr || *address == '\0') {
    return Fail(ErrorCode::kInvalidArgument,
                "MASTER_ADDR is not set, but RANK is; it is the address of rank 0's machine");
  }
  at.address = address;
  FT_ASSIGN(at.port, NumberOf(get, "MASTER_PORT", 1, 65535));
  return at;
}

}  // namespace foretrain

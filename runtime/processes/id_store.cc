#include "runtime/processes/id_store.h"

#include <algorithm>
#include <chrono>

#include "base/units.h"

namespace foretrain {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);  // interval of asking `over`

}  // namespace

Result<void> ThreadIdStore::Put(int rank, const std::string& name, const std::string& value) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!values_.emplace(std::pair(rank, name), value).second) {
      return Fail(ErrorCode::kInvalidArgument,
                  "rank " + std::to_string(rank) + " stores " + name + " a second time");
    }
  }
  put_.notify_all();
  return {};
}

std::optional<std::string> ThreadIdStore::Find(int owner, const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = values_.find({owner, name});
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

// `over` is asked without the lock: it may take a lock under which another thread stores a value.
Result<std::string> ThreadIdStore::Get(int owner, const std::string& name,
                                       const std::function<bool()>& over) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns_);
  const std::pair<int, std::string> key(owner, name);
  std::unique_lock<std::mutex> lock(mutex_);
  while (values_.count(key) == 0) {
    if (over) {
      lock.unlock();
      if (over()) return Fail(ErrorCode::kAborted, "stopped while it waited for " + name);
      lock.lock();
      if (values_.count(key) != 0) break;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) {
      return Fail(ErrorCode::kTimeout, "rank " + std::to_string(owner) + " has not stored " + name +
                                           " within " + FormatSeconds(SecondsFromNs(timeout_ns_)));
    }
    put_.wait_until(lock, std::min(deadline, now + kLook));
  }
  return values_[key];
}

}  // namespace foretrain

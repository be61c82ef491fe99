#include "runtime/processes/id_store.h"

#include <algorithm>
#include <chrono>

#include "base/units.h"

namespace foretrain {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);  // interval of asking `over`

}  // namespace

Result<void> ThreadIdStore::Put(const std::string& name, const std::string& value) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[name] = value;
  }
  put_.notify_all();
  return {};
}

Result<std::string> ThreadIdStore::Get(const std::string& name, const std::function<bool()>& over) {
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

}  // namespace foretrain

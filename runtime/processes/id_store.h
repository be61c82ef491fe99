// How ranks find each other before they can communicate: a rank stores a value under a name of its
// own, and others wait for it. Used by runtime/nccl/nccl_set.h and by ProcessGroup.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"

namespace foretrain {

class IdStore {
 public:
  virtual ~IdStore() = default;

  // Stores a value of `rank`, the caller's. Safe from any thread, as Get is. Errors:
  // kInvalidArgument, the rank has stored a value of that name before; it stays.
  virtual Result<void> Put(int rank, const std::string& name, const std::string& value) = 0;
  // Waits for a value of rank `owner`. `over`, if not null, is called while waiting. Errors:
  // kTimeout, no value in time, naming both; kAborted, `over` returned true.
  virtual Result<std::string> Get(int owner, const std::string& name,
                                  const std::function<bool()>& over) = 0;
};

// For ranks that are threads of one process.
class ThreadIdStore : public IdStore {
 public:
  explicit ThreadIdStore(std::int64_t timeout_ns) : timeout_ns_(timeout_ns) {}
  Result<void> Put(int rank, const std::string& name, const std::string& value) override;
  Result<std::string> Get(int owner, const std::string& name,
                          const std::function<bool()>& over) override;
  // The value if it is there.
  std::optional<std::string> Find(int owner, const std::string& name) const;

 private:
  const std::int64_t timeout_ns_;
  mutable std::mutex mutex_;
  std::condition_variable put_;
  std::map<std::pair<int, std::string>, std::string> values_;  // guarded by mutex_
};

}  // namespace foretrain

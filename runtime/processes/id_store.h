// How ranks find each other before they can communicate: one rank stores a value under a name, and
// others wait for it. Used by runtime/nccl/nccl_set.h.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "runtime/processes/launched_rank.h"

namespace foretrain {

class IdStore {
 public:
  virtual ~IdStore() = default;

  // Safe from any thread. A name is stored once. `over`, if not null, is called while waiting.
  // Errors: kIo, the store is unreachable; kTimeout, no value in time; both name the name;
  // kAborted, `over` returned true.
  virtual Result<void> Put(const std::string& name, const std::string& value) = 0;
  virtual Result<std::string> Get(const std::string& name, const std::function<bool()>& over) = 0;
};

// For ranks that are threads of one process.
class ThreadIdStore : public IdStore {
 public:
  explicit ThreadIdStore(std::int64_t timeout_ns) : timeout_ns_(timeout_ns) {}
  Result<void> Put(const std::string& name, const std::string& value) override;
  Result<std::string> Get(const std::string& name, const std::function<bool()>& over) override;

 private:
  const std::int64_t timeout_ns_;
  std::mutex mutex_;
  std::condition_variable put_;
  std::map<std::string, std::string> values_;  // guarded by mutex_
};

// For processes: rank 0 listens at MASTER_ADDR:MASTER_PORT and keeps the values. The others connect
// over TCP and retry until it listens. Errors: kIo, the system's own text.
Result<std::unique_ptr<IdStore>> MakeTcpIdStore(const LaunchedRank& at, std::int64_t timeout_ns);

}  // namespace foretrain

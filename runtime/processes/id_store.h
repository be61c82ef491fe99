// How the ranks of a run find each other before they can communicate: values under names, which one
// rank puts and others wait for. Leaves out what the values are: runtime/nccl/nccl_set.h.
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

  // Both from any thread. A name is put once. `over`, where not null, is asked while one waits.
  // Errors: kIo, the store cannot be reached; kTimeout, nobody has put the name in time; both name
  // it; kAborted, `over` has said so.
  virtual Result<void> Put(const std::string& name, const std::string& value) = 0;
  virtual Result<std::string> Get(const std::string& name, const std::function<bool()>& over) = 0;
};

// Of ranks that are threads of one process.
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

// Of processes: rank 0 listens at MASTER_ADDR:MASTER_PORT and keeps the values, the others ask it
// over TCP, and try until it listens.
//
// Errors: kIo, the system's own words.
Result<std::unique_ptr<IdStore>> MakeTcpIdStore(const LaunchedRank& at, std::int64_t timeout_ns);

}  // namespace foretrain

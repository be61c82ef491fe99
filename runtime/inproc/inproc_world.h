// Communication among ranks that are threads of one process, by rendezvous on shared memory: on one
// device, or on several that can read each other's memory. Processes: runtime/processes/. NCCL:
// runtime/nccl/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "runtime/communicator.h"
#include "runtime/run/flight.h"
#include "runtime/run/rank_world.h"
#include "runtime/run/run_clock.h"
#include "runtime/run/run_control.h"

namespace foretrain {

class InprocChannel;
class InprocSet;
struct ChannelContext;
class WaitTable;

struct InprocOptions {
  std::int64_t timeout_ns = 600'000'000'000;  // wait of a member for its peers; > 0
  // Text of an op of a rank for messages; null: Describe(op).
  std::function<std::string(int rank, OpId op)> op_text;
  std::vector<int> devices{};  // by rank; empty: all on device 0
};

// The channels of one run. `api` copies and sums; clock, control and flight belong to the run and
// outlive this.
class InprocWorld : public RankWorld {
 public:
  InprocWorld(int ranks, const FtDeviceApi& api, RunClock& clock, RunControl& control,
              FlightRecorder& flight, InprocOptions options);
  ~InprocWorld() override;

  // Safe from any thread.
  CommunicatorSet& Rank(int rank) override;

 private:
  friend class InprocSet;
  Result<Communicator*> Open(InprocSet& set, int rank, std::vector<int> members, GroupKind group,
                             Queue queue, OpKind kind);

  std::unique_ptr<WaitTable> waits_;
  std::unique_ptr<ChannelContext> context_;
  std::mutex mutex_;
  std::map<ChannelKey, std::unique_ptr<InprocChannel>> channels_;  // guarded by mutex_
  std::vector<std::unique_ptr<InprocSet>> sets_;
};

}  // namespace foretrain

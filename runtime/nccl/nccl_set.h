// Communication by NCCL: one communicator a group and queue, made without blocking, watched, and
// ended when the run is. Leaves out how ranks find each other (runtime/processes/id_store.h) and
// several ranks on one device, which NCCL refuses (runtime/inproc/).
//
// Sums are in NCCL's order, not in that of members: equal on all members, not equal to the bit to
// what another plan or number of ranks gives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/device.h"
#include "runtime/nccl/nccl_library.h"
#include "runtime/processes/id_store.h"
#include "runtime/rank_world.h"
#include "runtime/run_clock.h"
#include "runtime/run_control.h"

namespace foretrain {

struct NcclOptions {
  int device = 0;                             // of this rank, and of no other
  std::int64_t timeout_ns = 600'000'000'000;  // of making a communicator, and of ending it; > 0
};

class NcclEndpoint;

// The communicators of one rank. Ends the run where one of them fails, with the call it was at, and
// where the run ends ends them, so that work of theirs on the device ends too.
class NcclSet : public CommunicatorSet {
 public:
  // `nccl`, `api`, `store`, `clock` and `control` outlive this; `store` is that of all ranks.
  NcclSet(int rank, const NcclApi& nccl, const FtDeviceApi& api, IdStore& store, RunClock& clock,
          RunControl& control, NcclOptions options);
  // Waits for communicators to end, at most the time-out in all; those that do not are left behind.
  ~NcclSet() override;

  // Makes the communicator, with all other members. Errors: kInvalidArgument, the rank is no
  // member; kIo, NCCL's own; kTimeout, a member has not come in time.
  Result<Communicator*> Open(const std::vector<int>& members, GroupKind group, Queue queue,
                             OpKind kind) override;
  // The same by its key, with which Open then finds it.
  Result<Communicator*> Open(const ChannelKey& key);

 private:
  friend class NcclEndpoint;
  Result<NcclComm*> Connect(const std::string& name, int members, int member);
  int StateOf(NcclComm* comm) const;
  // Until `state` is no longer under way; kAborted where the run ends. Errors: as Open.
  template <class State>
  Result<void> AwaitState(NcclComm* comm, const std::string& what, State state) const;
  Result<void> Await(const NcclEndpoint& endpoint, const std::string& what) const;
  std::string TextOf(int result, NcclComm* comm) const;
  void Watch();
  void AbortAll();  // mutex_ held, or alone

  const int rank_;
  const NcclApi& nccl_;
  const FtDeviceApi& api_;
  IdStore& store_;
  RunClock& clock_;
  RunControl& control_;
  const NcclOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable over_condition_;
  bool over_ = false;  // guarded by mutex_, as all below
  bool aborted_ = false;
  std::map<ChannelKey, std::unique_ptr<NcclEndpoint>> endpoints_;
  std::thread watch_;
};

}  // namespace foretrain

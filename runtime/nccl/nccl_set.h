// Communication by NCCL: one communicator for each group and queue, created without blocking,
// watched during the run, and ended with it. How ranks find each other:
// runtime/processes/id_store.h. Several ranks on one device, which NCCL refuses: runtime/inproc/.
//
// Sums are taken in NCCL's order, not in member order: equal on all members, but not bit-identical
// to another plan or number of ranks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/device/device.h"
#include "runtime/nccl/nccl_library.h"
#include "runtime/processes/id_store.h"
#include "runtime/run/rank_world.h"
#include "runtime/run/run_clock.h"
#include "runtime/run/run_control.h"

namespace foretrain {

struct NcclOptions {
  int device = 0;                             // this rank's device, used by no other rank
  std::int64_t timeout_ns = 600'000'000'000;  // for creating and for ending a communicator; > 0
};

class NcclEndpoint;

// The communicators of one rank. If one fails, the run fails with the call it was at. If the run
// ends, they are aborted, so that their work on the device ends too.
class NcclSet : public CommunicatorSet {
 public:
  // `nccl`, `api`, `store`, `clock` and `control` outlive this; all ranks share `store`.
  NcclSet(int rank, const NcclApi& nccl, const FtDeviceApi& api, IdStore& store, RunClock& clock,
          RunControl& control, NcclOptions options);
  // Waits for communicators to end, for the timeout in total; the rest is left behind.
  ~NcclSet() override;

  // Creates the communicator together with all other members. Errors: kInvalidArgument, the rank is
  // no member; kIo, NCCL's own; kTimeout, a member did not join in time.
  Result<Communicator*> Open(const std::vector<int>& members, GroupKind group, Queue queue,
                             OpKind kind) override;
  // As above by key; Open then finds it.
  Result<Communicator*> Open(const ChannelKey& key);

 private:
  friend class NcclEndpoint;
  Result<NcclComm*> Connect(const ChannelKey& key);
  int StateOf(NcclComm* comm) const;
  // Polls `state` until it is no longer in progress; kAborted if the run ends. Errors as in Open.
  template <class State>
  Result<void> AwaitState(NcclComm* comm, const std::string& what, State state) const;
  Result<void> Await(const NcclEndpoint& endpoint, const std::string& what) const;
  std::string TextOf(int result, NcclComm* comm) const;
  void Watch();
  void AbortAll();  // mutex_ held, or no other thread exists

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

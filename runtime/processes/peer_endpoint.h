// One rank's end of a communicator of processes: what its calls send and sum.
// runtime/processes/process_world.h connects it with the others.
//
//   each member ── signature ──► all others     checked by each before anything is moved
//               ── parts ──────► those that need them, while theirs come
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/processes/peer_transport.h"
#include "runtime/processes/transfer_codes.h"
#include "runtime/run/rank_world.h"

namespace foretrain {

class PeerEndpoint : public Communicator {
 public:
  // Objects referred to by `context` outlive this. `transport` is connected with all members.
  PeerEndpoint(const WorldContext& context, const ChannelKey& key, int rank,
               std::unique_ptr<PeerTransport> transport, TransferCodes codes);

  // Errors: as in Communicator; kIo, a member's process has gone, or bytes arrived changed. After
  // one, no further call may be made.
  Result<CommTimes> Call(const CommCall& call, FtQueue* queue) override;

 private:
  struct Signature;

  int Count() const { return static_cast<int>(key_.members.size()); }
  int RankOf(int member) const { return key_.members[static_cast<std::size_t>(member)]; }

  Signature SignatureOf(const CommCall& call) const;
  Result<void> Meet(const CommCall& call);
  Result<void> Move(const CommCall& call, FtQueue* queue);
  Result<void> Reduce(const CommCall& call, FtQueue* queue);
  Result<void> GatherParts(const CommCall& call);
  Result<void> Gather(const CommCall& call);
  Result<void> ExchangeParts(const CommCall& call, const std::vector<std::int64_t>& sent,
                             const std::vector<std::int64_t>& came);
  Result<void> Rotate(const CommCall& call);
  Result<void> Pass(const CommCall& call);
  // Moves all pieces at once and checks them; pieces without bytes are skipped.
  Result<void> Exchange(const std::vector<Piece>& pieces, const CommCall& call);
  Result<void> MoveAll(const std::vector<Piece>& pieces, const CommCall& call);
  Error Lost(const TransportState& state, const CommCall& call) const;
  static std::string TextOf(OpKind kind, std::int64_t elements);

  const FtDeviceApi& api_;
  RunClock& clock_;
  RunControl& control_;
  const std::int64_t timeout_ns_;
  const std::function<std::string(int rank, OpId op)> op_text_;
  const ChannelKey key_;
  const int rank_;
  const int member_;
  const std::unique_ptr<PeerTransport> transport_;
  TransferCodes codes_;
  std::int64_t sequence_ = 0;
  std::vector<char> room_;  // other members' parts of a sum
};

}  // namespace foretrain

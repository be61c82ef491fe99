// Moves bytes between the members of one communicator, which are processes.
// runtime/processes/peer_endpoint.h decides what moves; runtime/ucx/ucx_worker.h moves it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace foretrain {

// Bytes to send to or receive from a member.
struct Piece {
  int member = 0;
  bool sends = false;
  char* at = nullptr;
  std::int64_t bytes = 0;
};

struct TransportState {
  bool finished = false;  // all pieces have moved, and the peers need no further call of Advance
  std::int64_t done = 0;  // transfers completed since Start; grows while peers make progress
  int member = 0;         // one that is waited for, or the one in trouble
  std::string trouble;    // why no more will move; "" if nothing is wrong
};

// One thread at a time.
class PeerTransport {
 public:
  virtual ~PeerTransport() = default;

  // Starts to move all pieces at once. Their memory stays valid until Advance says `finished`, or
  // Close returns. Pieces between two members arrive in the order of their sends; both ends give
  // the same sizes, or the receiver's state is trouble. Called only when nothing is in progress.
  virtual void Start(std::span<const Piece> pieces) = 0;
  // Waits up to `ms` for something to complete.
  virtual TransportState Advance(int ms) = 0;
  // Gives up all transfers: no piece's memory is touched afterwards. The transport cannot be used
  // any more.
  virtual void Close() = 0;
};

}  // namespace foretrain

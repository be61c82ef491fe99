// An authenticated connection between two processes of a job: one reader and one writer of frames.
// Both ends hold the same key; whoever lacks it can neither read the job's answers nor forge,
// change, repeat, reorder or reflect a frame. Frames are not encrypted.
//
//   each end ── "FTRAIN02", 32 random bytes ──► the other
//   each end ── type (1) | length (4) | text | HMAC-SHA-256 (32) ──► the other, any number
//
// The code of a frame covers its number in the direction and all bytes before it. Its key is made
// from the job's key, both ends' random bytes and the direction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/io/sha256.h"
#include "base/result.h"
#include "runtime/processes/wire/socket.h"

namespace foretrain {

struct Frame {
  char type = 0;
  std::string text;
};

// The longest text of a frame of this type that the receiver expects, in bytes; -1 if it expects no
// such frame.
using MaxBytesOf = std::int64_t (*)(char type);

class Connection {
 public:
  enum class Side { kConnects, kAccepts };

  // Sends this end's random bytes.
  //
  //   key          the job's
  //   patience_ns  time for the other end's first frame, and for each later one from its first byte
  Connection(Socket socket, Side side, std::string key, std::int64_t patience_ns);

  const Socket& socket() const { return socket_; }
  // True once the other end's random bytes have come: from then on frames can be sent.
  bool IsKeyed() const { return keyed_; }
  // Changes the time for each later frame.
  void SetPatience(std::int64_t patience_ns) { patience_ns_ = patience_ns; }
  // True if a frame has not come whole in time: Receive then returns the error.
  bool IsLate() const;

  // Reads without waiting; `nullopt` if no frame is whole yet. Memory grows with the bytes that
  // have come, not with the length that the other end claims. Receive and Send may run in two
  // threads. Errors, which end the connection: kIo, the other end has gone, or its frame is not
  // expected, too long or not authentic; kTimeout, it was too slow.
  Result<std::optional<Frame>> Receive(MaxBytesOf max);
  // Waits for a frame. Errors: those of Receive; kTimeout.
  Result<Frame> Await(MaxBytesOf max, Deadline by);
  // Waits until all bytes are sent. One thread at a time. After an error the connection is shut
  // down: a part of the frame may have been sent. Errors: kIo, kTimeout.
  Result<void> Send(char type, std::string_view text, Deadline by);

 private:
  static std::string CodeOf(HmacSha256 of, std::uint64_t& number, std::string_view bytes);
  // Reads until in_ has need_ bytes; false if they have not come yet.
  Result<bool> Fill();
  Result<void> TakeGreeting();

  Socket socket_;
  Side side_;
  std::string key_, greeting_;
  std::int64_t patience_ns_;
  std::optional<Deadline> by_;  // for the frame that is coming
  bool keyed_ = false;
  bool broken_ = false;  // a frame was sent in part
  HmacSha256 sending_{""}, receiving_{""};
  std::uint64_t sent_ = 0, received_ = 0;  // frames so far
  std::string in_;                         // part of a greeting or frame
  std::size_t need_;
};

// Bytes from the system's random generator.
std::string RandomBytes(std::size_t count);

}  // namespace foretrain

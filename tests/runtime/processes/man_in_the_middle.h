// A program between two processes: it forwards the connections made to its port and changes one
// frame of the first.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>

#include "runtime/processes/wire/socket.h"

namespace foretrain {

enum class Change {
  kNone,
  kFlipType,
  kFlipLength,  // the length is off by one
  kHugeLength,  // the length says 1 GiB more
  kFlipText,    // a bit of the first byte after the header
  kFlipLast,    // a bit of the last byte
  kTruncate,    // half of the frame, then the end
  kDrop,
  kRepeat,        // the frame twice
  kSwap,          // the next frame first
  kReflect,       // back to its sender
  kSlow,          // a byte every 100 ms
  kGarbage,       // 100 other bytes before it
  kForgedHeader,  // before it a header that says 4 GiB
  kSilence,       // nothing from here on, in both directions
};
constexpr int kChanges = 15;

struct Meddling {
  Change change = Change::kNone;
  bool to_listener = true;  // direction of the frame
  int frame = 0;            // its number in that direction; 0: the random bytes at the start
};

class ManInTheMiddle {
 public:
  // Forwards to 127.0.0.1:`port`.
  ManInTheMiddle(int port, Meddling meddling);
  ~ManInTheMiddle();
  int port() const { return PortOf(listener_); }
  bool has_meddled() const { return done_; }
  // All bytes to the listener so far. Call after the run.
  const std::string& recorded() const { return recorded_; }

 private:
  struct Way;  // one direction of a connection
  void Run();
  void Forward(Socket from, Socket to);
  // Sends what there is of the direction. False: ends the connection.
  bool Pass(Way& way);
  bool Deliver(const Way& way, const std::string& frame);

  const int target_;
  const Meddling meddling_;
  Socket listener_;
  std::atomic<bool> over_{false}, done_{false};
  bool silent_ = false;
  std::string recorded_;
  std::thread thread_;
};

// Sends all bytes, as far as the other end takes them within a second.
void SendBytes(const Socket& socket, const std::string& bytes);

}  // namespace foretrain

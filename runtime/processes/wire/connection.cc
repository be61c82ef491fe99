#include "runtime/processes/wire/connection.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/units.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kMagic = "FTRAIN02";
constexpr std::size_t kGreetingBytes = kMagic.size() + 32;
constexpr std::size_t kHeaderBytes = 5;          // type and length
constexpr std::size_t kChunkBytes = 256 * 1024;  // read at once

std::string LittleEndian(std::uint64_t value, int bytes) {
  std::string text;
  for (int byte = 0; byte < bytes; ++byte) text += static_cast<char>(value >> (8 * byte) & 0xff);
  return text;
}

// True if the call should be tried again once the socket is ready.
bool WouldWait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

std::string RandomBytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t made = 0;
  while (made < count) {
    const ssize_t more = getrandom(bytes.data() + made, count - made, 0);
    FT_CHECK(more >= 0 || errno == EINTR);  // fails only for bad arguments
    made += static_cast<std::size_t>(std::max<ssize_t>(more, 0));
  }
  return bytes;
}

// A new socket's buffer takes the greeting at once. If it does not, the other end gives up.
Connection::Connection(Socket socket, Side side, std::string key, std::int64_t patience_ns)
    : socket_(std::move(socket)),
      side_(side),
      key_(std::move(key)),
      greeting_(std::string(kMagic) + RandomBytes(kGreetingBytes - kMagic.size())),
      patience_ns_(patience_ns),
      by_(DeadlineIn(patience_ns)),
      need_(kGreetingBytes) {
  static_cast<void>(
      send(socket_.get(), greeting_.data(), greeting_.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

bool Connection::IsLate() const { return by_ && Clock::now() > *by_; }

std::string Connection::CodeOf(HmacSha256 of, std::uint64_t& number, std::string_view bytes) {
  return of.Add(LittleEndian(number++, 8)).Add(bytes).Finish();
}

// Reads before it looks at the deadline: a reader that was busy meanwhile must not blame the
// sender.
Result<bool> Connection::Fill() {
  while (in_.size() < need_) {
    const std::size_t had = in_.size();
    in_.resize(had + std::min(need_ - had, kChunkBytes));
    const ssize_t came = recv(socket_.get(), in_.data() + had, in_.size() - had, MSG_DONTWAIT);
    const bool waits = came < 0 && WouldWait();
    in_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(came, 0)));
    if (came > 0 && !by_) by_ = DeadlineIn(patience_ns_);
    if (came > 0) continue;
    if (!waits) return Fail(ErrorCode::kIo, "its process has ended without saying why");
    if (!IsLate()) return false;
    return Fail(ErrorCode::kTimeout, "its message did not come whole within " +
                                         FormatSeconds(SecondsFromNs(patience_ns_)));
  }
  return true;
}

// A key for each direction: a frame that is sent back to its sender fails. New random bytes at both
// ends: frames of an earlier connection fail.
Result<void> Connection::TakeGreeting() {
  if (!in_.starts_with(kMagic)) {
    return Fail(ErrorCode::kIo, "it does not speak this version's protocol; run one build");
  }
  const bool connects = side_ == Side::kConnects;
  const std::string both = connects ? greeting_ + in_ : in_ + greeting_;
  const std::string to_acceptor = HmacSha256(key_).Add("to acceptor ").Add(both).Finish();
  const std::string to_connector = HmacSha256(key_).Add("to connector").Add(both).Finish();
  sending_ = HmacSha256(connects ? to_acceptor : to_connector);
  receiving_ = HmacSha256(connects ? to_connector : to_acceptor);
  keyed_ = true;
  return {};
}

Result<std::optional<Frame>> Connection::Receive(MaxBytesOf max) {
  for (;;) {
    FT_ASSIGN(const bool filled, Fill());
    if (!filled) return std::optional<Frame>();
    if (!keyed_) {
      FT_TRY(TakeGreeting());
      in_.clear();
      need_ = kHeaderBytes;
      continue;
    }
    if (need_ == kHeaderBytes) {
      std::uint32_t length = 0;
      for (std::size_t byte = 4; byte > 0; --byte) {
        length = length << 8 | static_cast<unsigned char>(in_[byte]);
      }
      if (std::int64_t{length} > max(in_[0])) {
        return Fail(ErrorCode::kIo, "it sent a message of " + std::to_string(length) +
                                        " bytes that is not expected here; run one build");
      }
      need_ = kHeaderBytes + length + Sha256::kBytes;
      continue;
    }
    const std::string_view frame = std::string_view(in_).substr(0, need_ - Sha256::kBytes);
    if (!EqualInConstantTime(CodeOf(receiving_, received_, frame),
                             std::string_view(in_).substr(frame.size()))) {
      return Fail(
          ErrorCode::kIo,
          "a message is not authentic: it was changed on the way, or its sender has another "
          "job token");
    }
    Frame made{in_[0], in_.substr(kHeaderBytes, frame.size() - kHeaderBytes)};
    in_.clear();
    in_.shrink_to_fit();
    need_ = kHeaderBytes;
    by_.reset();
    return std::optional<Frame>(std::move(made));
  }
}

Result<Frame> Connection::Await(MaxBytesOf max, Deadline by) {
  for (;;) {
    FT_ASSIGN(std::optional<Frame> frame, Receive(max));
    if (frame) return *std::move(frame);
    if (Clock::now() > by) return Fail(ErrorCode::kTimeout, "it does not answer");
    static_cast<void>(IsReady(socket_, POLLIN, MsUntil(by_ ? std::min(by, *by_) : by)));
  }
}

// MSG_DONTWAIT with poll: the call can give up, which a blocking send cannot. MSG_NOSIGNAL: a
// closed connection is an error and not a SIGPIPE.
Result<void> Connection::Send(char type, std::string_view text, Deadline by) {
  FT_CHECK(keyed_ && text.size() <= UINT32_MAX);
  if (broken_) return Fail(ErrorCode::kIo, "the connection has ended");
  std::string frame(1, type);
  frame.append(LittleEndian(text.size(), 4)).append(text);
  frame += CodeOf(sending_, sent_, frame);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    const int error = errno;
    const bool late = Clock::now() > by;
    if (WouldWait() && !late) {
      static_cast<void>(IsReady(socket_, POLLOUT, MsUntil(by)));
      continue;
    }
    broken_ = true;
    static_cast<void>(shutdown(socket_.get(), SHUT_RDWR));
    return late ? Fail(ErrorCode::kTimeout, "it takes no messages")
                : Fail(ErrorCode::kIo, std::strerror(error));
  }
  return {};
}

}  // namespace foretrain

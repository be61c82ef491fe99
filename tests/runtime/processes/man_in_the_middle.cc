#include "tests/runtime/processes/man_in_the_middle.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <utility>

namespace foretrain {
namespace {

constexpr std::size_t kGreetingBytes = 40;
constexpr std::size_t kHeaderBytes = 5, kCodeBytes = 32;
constexpr std::int64_t kSecond = 1'000'000'000;

}  // namespace

struct ManInTheMiddle::Way {
  const Socket* from;
  const Socket* to;
  bool to_listener;
  int frames = 0;
  std::string bytes{};  // of a frame that is not whole
  std::string held{};   // a frame that waits for the next
};

void SendBytes(const Socket& socket, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size() && IsReady(socket, POLLOUT, 1000)) {
    const ssize_t more = send(socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) return;
    sent += static_cast<std::size_t>(more);
  }
}

ManInTheMiddle::ManInTheMiddle(int port, Meddling meddling) : target_(port), meddling_(meddling) {
  auto listener = ListenAt("127.0.0.1", 0);
  EXPECT_TRUE(listener.has_value());
  listener_ = *std::move(listener);
  thread_ = std::thread([this] { Run(); });
}

ManInTheMiddle::~ManInTheMiddle() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

void ManInTheMiddle::Run() {
  while (!over_) {
    if (!IsReady(listener_, POLLIN, 20)) continue;
    Socket from = Accept(listener_);
    auto to = ConnectTo("127.0.0.1", target_, DeadlineIn(kSecond));
    if (from.is_open() && to.has_value()) Forward(std::move(from), *std::move(to));
  }
}

void ManInTheMiddle::Forward(Socket from, Socket to) {
  std::array<Way, 2> ways = {Way{&from, &to, true}, Way{&to, &from, false}};
  while (!over_) {
    std::array<pollfd, 2> polled = {pollfd{from.get(), POLLIN, 0}, pollfd{to.get(), POLLIN, 0}};
    static_cast<void>(poll(polled.data(), polled.size(), 20));
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (polled[i].revents != 0 && !Pass(ways[i])) return;
    }
  }
}

bool ManInTheMiddle::Pass(Way& way) {
  std::array<char, 1 << 16> bytes{};
  const ssize_t came = recv(way.from->get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (came <= 0) return false;
  way.bytes.append(bytes.data(), static_cast<std::size_t>(came));
  if (way.to_listener) recorded_.append(bytes.data(), static_cast<std::size_t>(came));
  for (;;) {
    std::size_t size = way.frames == 0 ? kGreetingBytes : kHeaderBytes;
    if (way.bytes.size() < size) return true;
    if (way.frames > 0) {
      for (std::size_t byte = 1; byte < kHeaderBytes; ++byte) {
        size += std::size_t{static_cast<unsigned char>(way.bytes[byte])} << (8 * (byte - 1));
      }
      size += kCodeBytes;
    }
    if (way.bytes.size() < size) return true;
    const std::string frame = way.bytes.substr(0, size);
    way.bytes.erase(0, size);
    const bool meddles = meddling_.change != Change::kNone && !done_ &&
                         way.to_listener == meddling_.to_listener &&
                         way.frames == meddling_.frame;
    ++way.frames;
    if (meddles && meddling_.change == Change::kSwap) {
      way.held = frame;
      done_ = true;
      continue;
    }
    if (meddles) {
      done_ = true;
      if (!Deliver(way, frame)) return false;
    } else if (!silent_) {
      SendBytes(*way.to, frame);
      SendBytes(*way.to, std::exchange(way.held, ""));
    }
  }
}

bool ManInTheMiddle::Deliver(const Way& way, const std::string& frame) {
  std::string changed = frame;
  const auto flip = [&](std::size_t at, int bit) {
    changed[std::min(at, changed.size() - 1)] ^= static_cast<char>(1 << bit);
    SendBytes(*way.to, changed);
    return true;
  };
  switch (meddling_.change) {
    case Change::kFlipType:
      return flip(0, 0);
    case Change::kFlipLength:
      return flip(1, 0);
    case Change::kHugeLength:
      return flip(4, 6);
    case Change::kFlipText:
      return flip(kHeaderBytes, 3);
    case Change::kFlipLast:
      return flip(changed.size(), 7);
    case Change::kTruncate:
      SendBytes(*way.to, frame.substr(0, frame.size() / 2));
      return false;
    case Change::kRepeat:
      SendBytes(*way.to, frame + frame);
      return true;
    case Change::kReflect:
      SendBytes(*way.from, frame);
      return true;
    case Change::kSlow:
      for (std::size_t i = 0; i < frame.size() && !over_; ++i) {
        SendBytes(*way.to, frame.substr(i, 1));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      return true;
    case Change::kGarbage:
      SendBytes(*way.to, std::string(100, '\x5a') + frame);
      return true;
    case Change::kForgedHeader:
      SendBytes(*way.to, "X\xff\xff\xff\xff" + frame);
      return true;
    case Change::kSilence:
      silent_ = true;
      return true;
    default:
      return true;  // kDrop
  }
}

}  // namespace foretrain

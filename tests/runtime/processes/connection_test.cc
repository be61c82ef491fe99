#include "runtime/processes/wire/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/units.h"
#include "runtime/device/resident_memory.h"
#include "tests/runtime/processes/man_in_the_middle.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using Side = Connection::Side;

constexpr std::int64_t kSecond = 1'000'000'000;
const std::string kKey(32, 'k');

std::int64_t MaxOf(char type) { return type == 'm' ? 1000 : -1; }

struct Sockets {
  Socket connects, accepts;
};
Sockets MakeSockets() {
  const auto listener = ListenAt("127.0.0.1", 0);
  EXPECT_TRUE(listener.has_value());
  auto connects = ConnectTo("127.0.0.1", PortOf(*listener), DeadlineIn(kSecond));
  EXPECT_TRUE(connects.has_value());
  EXPECT_TRUE(IsReady(*listener, POLLIN, 1000));
  return {*std::move(connects), Accept(*listener)};
}

// Reads the other end's random bytes, which are there already.
void Greet(Connection& connection) {
  const auto none = connection.Receive(&MaxOf);
  ASSERT_TRUE(none.has_value()) << none.error().message;
  ASSERT_TRUE(connection.IsKeyed());
}

struct Pair {
  Connection connects, accepts;
};
Pair MakePair(const std::string& other_key = kKey, std::int64_t patience_ns = kSecond) {
  Sockets sockets = MakeSockets();
  Pair pair{Connection(std::move(sockets.connects), Side::kConnects, kKey, patience_ns),
            Connection(std::move(sockets.accepts), Side::kAccepts, other_key, patience_ns)};
  Greet(pair.connects);
  Greet(pair.accepts);
  return pair;
}

TEST(Connection, CarriesFramesBothWays) {
  Pair pair = MakePair();
  const std::string text(1000, '\0');
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pair.connects.Send('m', text, DeadlineIn(kSecond)).has_value());
    ASSERT_TRUE(pair.accepts.Send('m', "", DeadlineIn(kSecond)).has_value());
    const auto there = pair.accepts.Await(&MaxOf, DeadlineIn(kSecond));
    const auto back = pair.connects.Await(&MaxOf, DeadlineIn(kSecond));
    ASSERT_TRUE(there.has_value()) << there.error().message;
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_EQ(there->text, text);
    EXPECT_EQ(back->text, "");
  }
}

TEST(Connection, RefusesAnotherKey) {
  Pair pair = MakePair(std::string(32, 'x'));
  ASSERT_TRUE(pair.connects.Send('m', "hello", DeadlineIn(kSecond)).has_value());
  const auto frame = pair.accepts.Await(&MaxOf, DeadlineIn(kSecond));
  ASSERT_FALSE(frame.has_value());
  EXPECT_THAT(frame.error().message, HasSubstr("another job token"));
}

// The bytes of a frame, read by an end that does not know the key.
std::string Wiretap(const Socket& socket, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes && IsReady(socket, POLLIN, 1000)) {
    char byte = 0;
    if (recv(socket.get(), &byte, 1, 0) != 1) break;
    all += byte;
  }
  return all;
}

// An end that sends back all that it gets has proved nothing.
TEST(Connection, RefusesItsOwnFrames) {
  for (const Side side : {Side::kConnects, Side::kAccepts}) {
    Sockets sockets = MakeSockets();
    Connection mine(std::move(sockets.connects), side, kKey, kSecond);
    SendBytes(sockets.accepts, Wiretap(sockets.accepts, 40));
    ASSERT_TRUE(IsReady(mine.socket(), POLLIN, 1000));
    Greet(mine);
    ASSERT_TRUE(mine.Send('m', "hello", DeadlineIn(kSecond)).has_value());
    SendBytes(sockets.accepts, Wiretap(sockets.accepts, 5 + 5 + 32));
    const auto frame = mine.Await(&MaxOf, DeadlineIn(kSecond));
    ASSERT_FALSE(frame.has_value());
    EXPECT_THAT(frame.error().message, HasSubstr("not authentic"));
  }
}

// All that a process has sent is sent again to another end with the same key.
TEST(Connection, RefusesTheBytesOfAnEarlierConnection) {
  Sockets sockets = MakeSockets();
  Connection first(std::move(sockets.connects), Side::kConnects, kKey, kSecond);
  const Connection other(Socket(), Side::kAccepts, kKey, kSecond);
  std::string recorded = Wiretap(sockets.accepts, 40);
  SendBytes(sockets.accepts, "FTRAIN02" + std::string(32, 'n'));
  ASSERT_TRUE(IsReady(first.socket(), POLLIN, 1000));
  Greet(first);
  ASSERT_TRUE(first.Send('m', "hello", DeadlineIn(kSecond)).has_value());
  recorded += Wiretap(sockets.accepts, 5 + 5 + 32);
  Sockets later = MakeSockets();
  Connection accepts(std::move(later.accepts), Side::kAccepts, kKey, kSecond);
  SendBytes(later.connects, recorded);
  const auto frame = accepts.Await(&MaxOf, DeadlineIn(kSecond));
  ASSERT_FALSE(frame.has_value());
  EXPECT_THAT(frame.error().message, HasSubstr("not authentic"));
}

// A header that claims 4 GiB is refused by the type's limit, before memory is allocated. A length
// within the limit allocates no more than what comes.
TEST(Connection, AllocatesOnlyForBytesThatHaveCome) {
  const auto max_huge = [](char) { return std::int64_t{1} << 32; };
  for (const bool allowed : {false, true}) {
    Sockets sockets = MakeSockets();
    Connection mine(std::move(sockets.accepts), Side::kAccepts, kKey, kSecond / 5);
    SendBytes(sockets.connects, "FTRAIN02" + std::string(32, 'n') + "m\xff\xff\xff\xff");
    const std::int64_t before_bytes = ResidentBytes();
    const auto frame = mine.Await(allowed ? MaxBytesOf(max_huge) : &MaxOf, DeadlineIn(5 * kSecond));
    ASSERT_FALSE(frame.has_value());
    EXPECT_THAT(frame.error().message,
                HasSubstr(allowed ? "did not come whole within 200" : "4294967295 bytes"));
    EXPECT_LT(ResidentBytes() - before_bytes, 64 * kMiB);
  }
}

// The deadline holds for the whole frame: a byte now and then does not extend it.
TEST(Connection, EndsASenderThatIsTooSlow) {
  Sockets sockets = MakeSockets();
  Connection mine(std::move(sockets.accepts), Side::kAccepts, kKey, kSecond / 5);
  std::atomic<bool> over{false};
  std::thread slow([&] {
    const std::string bytes = "FTRAIN02" + std::string(200, 'n');
    for (std::size_t i = 0; i < bytes.size() && !over; ++i) {
      SendBytes(sockets.connects, bytes.substr(i, 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto frame = mine.Await(&MaxOf, DeadlineIn(10 * kSecond));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  over = true;
  slow.join();
  ASSERT_FALSE(frame.has_value());
  EXPECT_EQ(frame.error().code, ErrorCode::kTimeout);
}

TEST(Connection, GivesUpOnAReceiverThatDoesNotRead) {
  Pair pair = MakePair();
  const std::string text(std::size_t{1} << 24, 'x');  // more than the buffers of both ends hold
  const auto begin = std::chrono::steady_clock::now();
  const auto sent = pair.connects.Send('m', text, DeadlineIn(kSecond / 5));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ASSERT_FALSE(sent.has_value());
  EXPECT_EQ(sent.error().code, ErrorCode::kTimeout);
  EXPECT_FALSE(pair.connects.Send('m', "", DeadlineIn(kSecond)).has_value());
}

}  // namespace
}  // namespace foretrain

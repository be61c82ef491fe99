#include "runtime/nccl/id_store.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

// A port that was free a moment ago.
int FreePort() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length), 0);
  close(descriptor);
  return ntohs(address.sin_port);
}

std::map<std::string, std::string> variables;
const char* Get(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

TEST(LaunchedRank, IsReadFromTheLaunchersVariables) {
  variables = {};
  auto at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value());
  EXPECT_EQ(at->world, 1);
  variables = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "host7"}, {"MASTER_PORT", "29500"}};
  at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->rank, 3);
  EXPECT_EQ(at->world, 8);
  EXPECT_EQ(at->address, "host7");
  EXPECT_EQ(at->port, 29500);
}

TEST(LaunchedRank, RefusesWhatItCannotMean) {
  const std::map<std::string, std::string> good = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "host7"}, {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "8"}, {"WORLD_SIZE", "many"}, {"MASTER_PORT", "70000"}}) {
    variables = good;
    variables[name] = value;
    const auto at = ReadLaunchedRank(&Get);
    ASSERT_FALSE(at.has_value()) << name;
    EXPECT_THAT(at.error().message, AllOf(HasSubstr(name), HasSubstr("\"" + value + "\"")));
  }
  for (const char* name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    variables = good;
    variables.erase(name);
    const auto at = ReadLaunchedRank(&Get);
    ASSERT_FALSE(at.has_value());
    EXPECT_THAT(at.error().message, HasSubstr(std::string(name) + " is not set"));
  }
}

TEST(TcpIdStore, HandsValuesFromOneRankToTheOthers) {
  const int port = FreePort();
  // Of bytes, as an id is.
  const std::string value("\0\1\377 id", 6);
  std::vector<std::string> got(3);
  std::vector<std::thread> threads;
  // The others come first: they try until rank 0 listens.
  for (const int rank : {1, 2}) {
    threads.emplace_back([&, rank] {
      auto store = MakeTcpIdStore({rank, 3, "127.0.0.1", port}, 10 * kSecond);
      ASSERT_TRUE(store.has_value()) << store.error().message;
      auto value_of = (*store)->Get("nccl tp of ranks 0 1");
      ASSERT_TRUE(value_of.has_value()) << value_of.error().message;
      got[static_cast<std::size_t>(rank)] = *value_of;
      ASSERT_TRUE((*store)->Put("came " + std::to_string(rank), "").has_value());
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  auto store = MakeTcpIdStore({0, 3, "127.0.0.1", port}, 10 * kSecond);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE((*store)->Put("nccl tp of ranks 0 1", value).has_value());
  for (const char* name : {"came 1", "came 2"}) {
    ASSERT_TRUE((*store)->Get(name).has_value()) << name;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got[1], value);
  EXPECT_EQ(got[2], value);
}

TEST(TcpIdStore, GivesUpInTimeAndSaysWhereItAsked) {
  const int port = FreePort();
  auto nobody = MakeTcpIdStore({1, 2, "127.0.0.1", port}, kSecond / 5);
  ASSERT_TRUE(nobody.has_value());
  auto value = (*nobody)->Get("an id");
  ASSERT_FALSE(value.has_value());
  EXPECT_EQ(value.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(value.error().message,
              AllOf(HasSubstr("rank 1 waited"), HasSubstr("127.0.0.1:" + std::to_string(port)),
                    HasSubstr("refused")));
  auto first = MakeTcpIdStore({0, 2, "127.0.0.1", port}, kSecond / 5);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  value = (*nobody)->Get("an id");
  ASSERT_FALSE(value.has_value());
  EXPECT_THAT(value.error().message, HasSubstr("nobody has told of it"));
  // Two cannot listen at one port.
  EXPECT_FALSE(MakeTcpIdStore({0, 2, "127.0.0.1", port}, kSecond / 5).has_value());
}

}  // namespace
}  // namespace foretrain

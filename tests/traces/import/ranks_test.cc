// Several ranks' traces: clocks, waits for peers and pipelines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/traces/import/trace_text.h"
#include "traces/import/ranks/collectives.h"
#include "traces/import/ranks/rank_join.h"
#include "traces/metrics/bubble.h"
#include "traces/metrics/metrics.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using trace_import::ClockFit;
using trace_import::CommunicationCall;
using trace_import::Match;
using trace_import::TracedRank;

// A rank's calls end when those of the others do, by a clock that is `offset_ns` late and gains
// `drift` a nanosecond.
std::vector<Span> CallsOf(std::int64_t offset_ns, double drift, std::uint64_t seed) {
  std::mt19937_64 arrival(seed), ends(1);
  std::vector<Span> spans;
  for (int i = 0; i < 200; ++i) {
    const std::int64_t end_ns = i * 5'000'000 + static_cast<std::int64_t>(ends() % 1'000'000);
    const std::int64_t start_ns = end_ns - 500'000 - static_cast<std::int64_t>(arrival() % 900'000);
    const auto shown = [&](std::int64_t ns) {
      return ns + offset_ns + std::llround(drift * static_cast<double>(ns));
    };
    // Ends differ by up to 2 us.
    const auto late_ns = static_cast<std::int64_t>(arrival() % 2000);
    spans.push_back({.start_ns = shown(start_ns),
                     .end_ns = shown(end_ns + late_ns),
                     .queue = Queue::kReduce,
                     .op_class = OpClass::kDpComm});
  }
  return spans;
}

std::vector<CommunicationCall> AllCalls(const std::vector<Span>& spans, const std::string& group) {
  std::vector<CommunicationCall> calls;
  for (std::size_t i = 0; i < spans.size(); ++i) calls.push_back({i, 0, group, 2});
  return calls;
}

// Ranks 0 and 1 share a group, and ranks 1 and 2 another, so rank 2 is compared through rank 1.
TEST(Clocks, AreAlignedByWhatRanksDoTogether) {
  for (const auto& [offset_ns, drift] :
       {std::pair{std::int64_t{37'000'000'000}, 0.0}, std::pair{std::int64_t{-250'000}, 30e-6},
        std::pair{std::int64_t{40'000}, -5e-6}}) {
    std::vector<std::vector<Span>> spans{CallsOf(0, 0, 1), CallsOf(offset_ns, drift, 2),
                                         CallsOf(2 * offset_ns, drift, 3)};
    std::vector<TracedRank> ranks;
    for (int i = 0; i < 3; ++i) {
      ranks.push_back({i, &spans[static_cast<std::size_t>(i)], {}});
    }
    ranks[0].calls = AllCalls(spans[0], "a");
    ranks[1].calls = AllCalls(spans[1], "a");
    const auto others = AllCalls(spans[1], "b");
    ranks[1].calls.insert(ranks[1].calls.end(), others.begin(), others.end());
    ranks[2].calls = AllCalls(spans[2], "b");
    const std::vector<Match> matches = trace_import::MatchCalls(ranks);
    ASSERT_EQ(matches.size(), 400U);
    const std::vector<ClockFit> fits = trace_import::FitClocks(ranks, matches);
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t i = 0; i < spans[0].size(); ++i) {
        EXPECT_NEAR(static_cast<double>(fits[r].Aligned(spans[r][i].end_ns)),
                    static_cast<double>(spans[0][i].end_ns), 5000)
            << "rank " << r << ", call " << i << ", offset " << offset_ns;
      }
      EXPECT_LE(fits[r].error_ns, 3000);
    }
    EXPECT_FALSE(fits[0].IsUsed());
  }
}

TEST(Clocks, StayWhereTheyAgree) {
  std::vector<std::vector<Span>> spans{CallsOf(0, 0, 1), CallsOf(1500, 0, 2)};
  std::vector<TracedRank> ranks{{0, &spans[0], AllCalls(spans[0], "a")},
                                {1, &spans[1], AllCalls(spans[1], "a")}};
  const auto fits = trace_import::FitClocks(ranks, trace_import::MatchCalls(ranks));
  EXPECT_FALSE(fits[1].IsUsed());
  EXPECT_EQ(fits[1].samples, 200U);
}

// On a busy host the ends of a call differ by up to 30 ms. A trend of 20 ms is no drift then.
TEST(Clocks, StayWhereEndsScatter) {
  std::vector<std::vector<Span>> spans{CallsOf(0, 0, 1), CallsOf(0, 0, 2)};
  for (std::size_t i = 0; i < spans[1].size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    spans[1][i].end_ns += (i % 2 == 0 ? 30'000'000 : -30'000'000) + number * 100'000;
  }
  std::vector<TracedRank> ranks{{0, &spans[0], AllCalls(spans[0], "a")},
                                {1, &spans[1], AllCalls(spans[1], "a")}};
  EXPECT_FALSE(trace_import::FitClocks(ranks, trace_import::MatchCalls(ranks))[1].IsUsed());
}

TEST(Calls, AreMatchedOnlyWhereEachMemberHasEquallyMany) {
  std::vector<Span> two(2), three(3);
  const auto matched = [](const std::vector<Span>& a, const std::vector<Span>& b, int members) {
    std::vector<Span> spans_a = a, spans_b = b;
    std::vector<TracedRank> ranks{{0, &spans_a, AllCalls(a, "g")}, {1, &spans_b, AllCalls(b, "g")}};
    for (TracedRank& rank : ranks) {
      for (CommunicationCall& call : rank.calls) call.members = members;
    }
    return trace_import::MatchCalls(ranks).size();
  };
  EXPECT_EQ(matched(two, two, 2), 2U);
  EXPECT_EQ(matched(two, three, 2), 0U);  // the profiler began in between
  EXPECT_EQ(matched(two, two, 4), 0U);    // two ranks were not traced
  EXPECT_EQ(matched(two, two, 0), 0U);    // how many there are is unknown
}

std::string Reduce(double start_us, double length_us) {
  return Complete("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "d20", start_us, length_us,
                  R"("Collective name":"allreduce","Process Group Name":"7",)"
                  R"("Process Group Ranks":"[0, 1]","Group size":2,)"
                  R"("Process Group Description":"dp")");
}

std::string RankTrace(int rank, const std::string& events) {
  return KinetoTrace(events, R"("distributedInfo":{"backend":"nccl","rank":)" +
                                 std::to_string(rank) + R"(,"world_size":2},)");
}

// Rank 0 comes at 20 us, rank 1 at 50, both end at 60: rank 0 waits for 30 us, 10 are its wire.
TEST(ImportedRanks, WaitForPeersBeforeACollectiveBegins) {
  const std::string product = Complete("kernel", "sgemm", "d7", 0, 10) + ",";
  const TraceRun run =
      ReadGood({RankTrace(0, product + Reduce(20, 40)), RankTrace(1, product + Reduce(50, 10))});
  const auto spans = SpansNamed(run, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].ready_ns, 20'000);
  EXPECT_EQ(spans[0].start_ns, 50'000);
  EXPECT_EQ(spans[1].start_ns, 50'000);
  EXPECT_EQ(spans[0].end_ns, 60'000);
  EXPECT_THAT(run.notes, Contains(HasSubstr("2 of 2 calls of communication were matched")));
  EXPECT_TRUE(trace_import::IsAllMatched(run.details_json));
  const ClassSeconds seconds = ComputeMetrics(run.timeline).overall->classes;
  EXPECT_NEAR(seconds.exposed_communication_s, 10e-6, 1e-12);
  EXPECT_NEAR(seconds.peer_wait_s, 15e-6, 1e-12);  // the mean of 30 and 0
}

// FSDP on the CPU orders a reduce-scatter, which a thread of Gloo's runs as an all-reduce with a
// copy.
TEST(ImportedRanks, CommunicateInGloosThreads) {
  const auto rank = [](int number, double start_us) {
    return KinetoTrace(
        Complete("cpu_op", "aten::mm", "1", 0, 10) + "," +
            Complete("cpu_op", "c10d::_reduce_scatter_base_", "1", 11, 3) + "," +
            Complete("user_annotation", "gloo:all_reduce", "9", start_us, 60 - start_us) + "," +
            Complete("cpu_op", "aten::copy_", "9", 52, 4),
        R"("distributedInfo":{"backend":"gloo","rank":)" + std::to_string(number) +
            R"(,"world_size":2,"pg_count":1},)");
  };
  const TraceRun run = ReadGood({rank(0, 20), rank(1, 50)});
  const auto spans = SpansNamed(run, "gloo:all_reduce");
  ASSERT_EQ(spans.size(), 2U);
  for (const Span& span : spans) {
    EXPECT_EQ(UnpackId(span.op).kind, InstructionKind::kReduceScatter);
    EXPECT_EQ(span.start_ns, 50'000);  // rank 0 waited for rank 1
    EXPECT_EQ(span.end_ns, 60'000);
  }
  EXPECT_THAT(SpansNamed(run, "aten::copy_"), testing::IsEmpty());
  EXPECT_THAT(SpansNamed(run, "c10d::_reduce_scatter_base_"), testing::IsEmpty());
  EXPECT_THAT(run.notes, Contains(HasSubstr("2 of 2 calls of communication were matched")));
}

// An annotation whose operator was not recorded keeps the meaning of its own name.
TEST(ImportedRanks, KeepGloosNameWithoutAnOperator) {
  const TraceRun run =
      ReadGood({KinetoTrace(Complete("cpu_op", "c10d::allreduce_", "1", 0, 1) + "," +
                            Complete("user_annotation", "gloo:all_reduce", "9", 2, 5) + "," +
                            Complete("user_annotation", "gloo:all_gather", "9", 10, 5))});
  const auto spans = SpansNamed(run, "gloo:all_gather");
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(UnpackId(spans[0].op).kind, InstructionKind::kAllGather);
  EXPECT_EQ(SpansNamed(run, "c10d::allreduce_").size(), 1U);
}

// Nothing tells the group of a kernel without a record.
TEST(ImportedRanks, SayThatSomeCommunicationWasNotMatched) {
  const std::string nameless =
      "," + Complete("kernel", "ncclDevKernel_AllGather_RING_LL", "d20", 70, 5);
  const TraceRun run =
      ReadGood({RankTrace(0, Reduce(20, 40) + nameless), RankTrace(1, Reduce(50, 10) + nameless)});
  EXPECT_FALSE(trace_import::IsAllMatched(run.details_json));
  EXPECT_FALSE(trace_import::IsAllMatched(""));
  EXPECT_FALSE(trace_import::IsAllMatched("{\"communication_matched\": 1}"));
}

// A send and its receive are one transfer, whatever the other kernels of the group do.
TEST(ImportedRanks, WaitForTheOtherEndOfATransfer) {
  const auto transfer = [](const char* what, double start_us, double length_us) {
    return Complete("kernel", "ncclDevKernel_SendRecv", "d21", start_us, length_us,
                    fmt::format(R"("Collective name":"{}","Process Group Name":"3",)"
                                R"("Process Group Ranks":"[0, 1]","Group size":2,)"
                                R"("Process Group Description":"PIPELINE_MODEL_PARALLEL_GROUP",)"
                                R"("Src Rank":0,"Dst Rank":1)",
                                what));
  };
  const TraceRun run =
      ReadGood({RankTrace(0, transfer("send", 40, 10)), RankTrace(1, transfer("recv", 5, 45))});
  const auto spans = SpansNamed(run, "ncclDevKernel_SendRecv");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[1].rank, 1);
  EXPECT_EQ(spans[1].ready_ns, 0);       // 5 us, the first event
  EXPECT_EQ(spans[1].start_ns, 35'000);  // 40 us
  EXPECT_THAT(PipelinesIn(run.details_json), ElementsAre(ElementsAre(0, 1)));
}

// The clock of rank 1 is 37 s late: its kernels would end 37 s after those of rank 0.
TEST(ImportedRanks, ShareAClockThatTheirCommunicationTells) {
  std::string first, second;
  for (int i = 0; i < 30; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    first += comma + Reduce(100 * i, 20);
    second += comma + Reduce(37e6 + 100 * i + 5, 15);
  }
  const TraceRun run = ReadGood({RankTrace(0, first), RankTrace(1, second)});
  for (const Span& span : run.timeline.spans) {
    EXPECT_GE(span.start_ns, 0);
    EXPECT_LE(span.end_ns, 3'000'000);
  }
  EXPECT_THAT(run.notes, Contains(HasSubstr("the clocks of 1 rank were aligned by communication: "
                                            "moved by up to 37.0 s")));
}

TEST(ImportedRanks, OfGroupsThatAreNotListedHaveNoPipelines) {
  const auto trace = [](const std::string& ranks) {
    return ReadGood(
        {RankTrace(0, Complete("kernel", "ncclDevKernel_SendRecv", "d21", 0, 10,
                               R"("Process Group Name":"3","Process Group Description":"pp",)"
                               R"("Process Group Ranks":")" +
                                   ranks + "\""))});
  };
  EXPECT_THAT(PipelinesIn(trace("[0, 8, 16]").details_json), ElementsAre(ElementsAre(0, 8, 16)));
  for (const char* const ranks : {"[0, 8, ...]", "0, 8", "[]", "[0]", "[0, -1]", "[0, 99999999]"}) {
    EXPECT_TRUE(PipelinesIn(trace(ranks).details_json).empty()) << ranks;
  }
  EXPECT_TRUE(PipelinesIn("").empty());
  EXPECT_TRUE(PipelinesIn(R"({"pipelines":[[0,"x"]]})").empty());
}

}  // namespace
}  // namespace foretrain

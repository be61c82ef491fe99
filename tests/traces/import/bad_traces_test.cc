// Errors in a trace are reported, and its intact part is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/in_pieces.h"
#include "tests/traces/import/trace_text.h"
#include "tests/traces/stores.h"
#include "tests/traces/temp_folder.h"
#include "traces/import/kineto/json_events.h"
#include "traces/metrics/metrics.h"

#if FORETRAIN_HAVE_ZLIB
#include <zlib.h>
#endif

namespace foretrain {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using trace_import::NanosecondsOf;

const std::string kKernel = Complete("kernel", "relu", "d1", 0, 5);

std::string ErrorOf(const std::string& text) {
  const auto runs = ReadTexts({text});
  return runs.has_value() ? "no error" : runs.error().message;
}

TEST(BadTrace, NamesTheByteAtWhichItIsNoJson) {
  EXPECT_THAT(
      ErrorOf("{\"traceEvents\": [{\"ph\": nonsense}]}"),
      AllOf(HasSubstr("rank0.json: no JSON at byte 26"), HasSubstr("write the trace again")));
  EXPECT_THAT(ErrorOf(KinetoTrace(kKernel + ",{\"ph\":\"X\",\"dur\":NaN}")),
              HasSubstr("no JSON at byte"));
  EXPECT_THAT(ErrorOf(KinetoTrace(kKernel + ",{\"name\":\"\xff\xfe\"}")),
              HasSubstr("no JSON at byte"));
  EXPECT_THAT(ErrorOf(KinetoTrace(kKernel + ",{\"ts\":1e999}")), HasSubstr("no JSON at byte"));
}

TEST(BadTrace, SaysWhatIsMissing) {
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("no \"traceEvents\""));
  EXPECT_THAT(ErrorOf(KinetoTrace("")), HasSubstr("0 events"));
  EXPECT_THAT(ErrorOf(KinetoTrace(R"({"ph":"M","name":"x"})")),
              HasSubstr("was the profiler running?"));
  EXPECT_THAT(ErrorOf("hello"), HasSubstr("neither JSON (plain or gzip), nor a database"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("neither JSON"));
  EXPECT_THAT(ErrorOf("NVTX..."), HasSubstr("nsys export --type sqlite"));
}

TEST(BadTrace, ThatWasCutKeepsWhatIsWhole) {
  const std::string whole = KinetoTrace(kKernel + "," + Complete("kernel", "gelu", "d1", 10, 5) +
                                        "," + Complete("kernel", "silu", "d1", 20, 5));
  const std::size_t third = whole.find("silu");
  for (const std::size_t size : {third + 2, third + 6, whole.size() - 1, whole.size() - 2}) {
    const TraceRun run = ReadGood({whole.substr(0, size)});
    EXPECT_EQ(run.timeline.spans.size(), size < third + 10 ? 2U : 3U) << size;
    EXPECT_THAT(run.notes,
                Contains(AllOf(HasSubstr("ends too early, at byte " + std::to_string(size)))));
  }
  EXPECT_EQ(ReadGood({whole.substr(0, third + 2) + "\n"}).timeline.spans.size(), 2U);
  // Not even one event is complete.
  EXPECT_THAT(ErrorOf(whole.substr(0, whole.find("relu"))), HasSubstr("no JSON at byte"));
}

TEST(BadTrace, GivesTheSameSpansInAnyPieces) {
  std::string events = kKernel + R"(,{"ph":"X","cat":"kernel","name":"no ts","dur":1})";
  for (int i = 0; i < 200; ++i) {
    events += "," + Complete("kernel", "k\\u00e9" + std::to_string(i), "d1", 10.0 * i, 5);
  }
  const std::string whole = KinetoTrace(events);
  for (const std::string& text : {whole, whole.substr(0, whole.size() / 2)}) {
    FaultFileSystem files;
    const std::string path = "rank0.json";
    files.Put(path, text);
    const auto expected = ReadTraces(files, std::span(&path, 1), {});
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    ASSERT_GT(expected->at(0).timeline.spans.size(), 90U);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      FilesInPieces pieces(files, seed);
      const auto run = ReadTraces(pieces, std::span(&path, 1), {});
      ASSERT_TRUE(run.has_value()) << run.error().message;
      EXPECT_TRUE(SameTimeline(run->at(0).timeline, expected->at(0).timeline));
      EXPECT_EQ(run->at(0).totals, expected->at(0).totals);
      EXPECT_EQ(run->at(0).notes, expected->at(0).notes);
    }
  }
}

// A writer that starts over cuts the file: what was read until then is kept.
TEST(BadTrace, ThatIsCutWhileItIsReadKeepsWhatIsWhole) {
  const TempFolder folder;
  const std::string path = folder.File("cut.json");
  std::string events = kKernel;
  for (int i = 0; i < 20'000; ++i) events += "," + Complete("kernel", "k", "d1", 10.0 * i, 5);
  PosixFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(files, path, KinetoTrace(events)).has_value());
  int told = 0;
  const auto cut = [&](const ImportProgress&) {
    if (++told == 3) std::filesystem::resize_file(path, 100'000);
    return true;
  };
  const auto runs = ReadTraces(files, std::span(&path, 1), {.progress = cut});
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_GT(runs->at(0).timeline.spans.size(), 100U);
  EXPECT_LT(runs->at(0).timeline.spans.size(), 20'000U);
  EXPECT_THAT(runs->at(0).notes, Contains(HasSubstr("ends too early")));
}

TEST(BadTrace, LeavesOutEventsWithoutAUsableTimeAndCountsThem) {
  const TraceRun run = ReadGood(
      {KinetoTrace(kKernel + "," + Complete("kernel", "negative", "d1", 10, -5) +
                   R"(,{"ph":"X","cat":"kernel","name":"no ts","pid":0,"tid":1,"dur":1})"
                   R"(,{"ph":"X","cat":"kernel","name":"no dur","pid":0,"tid":1,"ts":1})"
                   R"(,{"ph":"X","cat":"kernel","pid":0,"tid":1,"ts":1,"dur":1})"
                   R"(,{"ph":"X","cat":"kernel","name":"text","pid":0,"tid":1,"ts":"x","dur":1})"
                   R"(,{"ph":"X","cat":"kernel","name":"far","pid":0,"tid":1,"ts":1e300,"dur":1})"
                   R"(,{"ph":"X","cat":"kernel","name":[],"pid":{},"tid":null,"ts":1,"dur":1})"
                   R"(,7,"text",null,[[]],{"ph":3})")});
  EXPECT_EQ(run.timeline.spans.size(), 1U);
  EXPECT_EQ(run.totals.invalid, 7);
}

TEST(BadTrace, OfDeepNestingIsReadAround) {
  const std::string deep(200'000, '[');
  const std::string up(200'000, ']');
  const TraceRun run = ReadGood({KinetoTrace(
      Complete("kernel", "relu", "d1", 0, 5, "\"shapes\":" + deep + up + ",\"bytes\":7"))});
  ASSERT_EQ(run.timeline.spans.size(), 1U);
  EXPECT_EQ(run.timeline.spans[0].bytes, 7);
  EXPECT_THAT(ErrorOf(deep), HasSubstr("no JSON at byte"));
}

TEST(BadTrace, WithOverlapsAndDoubledIdsStillHasMetrics) {
  const std::string launch = R"("correlation":1)";
  const TraceRun run =
      ReadGood({KinetoTrace(Complete("cpu_op", "aten::mm", "1", 0, 50) + "," +
                            Complete("cpu_op", "crosses its end", "1", 40, 50) + "," +
                            Complete("cuda_runtime", "cudaLaunchKernel", "1", 5, 5, launch) + "," +
                            Complete("cuda_runtime", "cudaLaunchKernel", "1", 12, 5, launch) + "," +
                            Complete("kernel", "gemm", "d7", 10, 30, launch) + "," +
                            Complete("kernel", "gemm", "d7", 20, 30, launch) + "," +
                            Complete("kernel", "gemm", "d8", 10, 30, launch))});
  const Metrics metrics = ComputeMetrics(run.timeline);
  ASSERT_TRUE(metrics.overall.has_value());
  EXPECT_NEAR(metrics.overall->classes.compute_s, 40e-6, 1e-12);  // 10 to 50 us
  EXPECT_EQ(SpansNamed(run, "gemm").size(), 3U);
}

TEST(BadTrace, OfHugeNumbersIsRefusedOrLeftOut) {
  const TraceRun run = ReadGood({KinetoTrace(
      Complete("kernel", "relu", "d1", 0, 5,
               R"("correlation":99999999999999999999999,"bytes":-1,"In msg nelems":9e18)"))});
  EXPECT_EQ(run.timeline.spans[0].bytes, 0);
}

TEST(BadTrace, WithATimeOfNothingLosesThatEventAlone) {
  std::string events = Complete("kernel", "no time", "d1", 0, 5);
  for (int i = 0; i < 3; ++i) {
    events += "," + Complete("kernel", "relu", "d1", 1.7e15 + 10 * i, 5);
  }
  const TraceRun run = ReadGood({KinetoTrace(events)});
  EXPECT_EQ(run.timeline.spans.size(), 3U);
  EXPECT_EQ(run.timeline.spans[0].start_ns, 0);
  EXPECT_EQ(run.totals.invalid, 1);
}

TEST(TraceTimes, AreExactNanoseconds) {
  EXPECT_EQ(NanosecondsOf("1699999999999.123"), 1'699'999'999'999'123);
  EXPECT_EQ(NanosecondsOf("1.5"), 1'500);
  EXPECT_EQ(NanosecondsOf("-1.005"), -1'005);
  EXPECT_EQ(NanosecondsOf("7"), 7'000);
  EXPECT_EQ(NanosecondsOf("0.0009"), 0);
  EXPECT_EQ(NanosecondsOf("2e3"), 2'000'000);
  for (const char* bad : {"", "-", "x", "1x", "1e300", "99999999999999999999", "1.2.3"}) {
    EXPECT_FALSE(NanosecondsOf(bad).has_value()) << bad;
  }
}

TEST(BadTrace, IsNotReadToItsEndWhereItIsStopped) {
  int asked = 0;
  const auto runs = ReadTexts({KinetoTrace(kKernel)}, {.progress = [&asked](const ImportProgress&) {
                                ++asked;
                                return false;
                              }});
  ASSERT_FALSE(runs.has_value());
  EXPECT_EQ(runs.error().code, ErrorCode::kAborted);
  EXPECT_EQ(asked, 1);
}

#if FORETRAIN_HAVE_ZLIB

std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST(PackedTrace, IsUnpacked) {
  EXPECT_EQ(ReadGood({Gzip(KinetoTrace(kKernel))}).timeline.spans.size(), 1U);
  // Several packed parts in one file form one text.
  const std::string text = KinetoTrace(kKernel);
  EXPECT_EQ(ReadGood({Gzip(text.substr(0, 50)) + Gzip(text.substr(50))}).timeline.spans.size(), 1U);
}

TEST(PackedTrace, ThatWasCutKeepsWhatIsWhole) {
  std::string events = kKernel;
  for (int i = 0; i < 5'000; ++i) {
    events += "," + Complete("kernel", "k" + std::to_string(i * 7919 % 1000), "d1", 10.0 * i, 5);
  }
  const std::string packed = Gzip(KinetoTrace(events));
  const TraceRun run = ReadGood({packed.substr(0, packed.size() / 2)});
  EXPECT_GT(run.timeline.spans.size(), 100U);
  EXPECT_LT(run.timeline.spans.size(), 5'000U);
  EXPECT_THAT(run.notes, Contains(HasSubstr("ends too early")));
}

TEST(PackedTrace, ThatExpandsAThousandfoldIsRefused) {
  EXPECT_THAT(ErrorOf(Gzip(KinetoTrace(kKernel + std::string(4'000'000, ' ')))),
              HasSubstr("more than 200 times its size"));
}

TEST(PackedTrace, ThatIsDamagedIsRefusedWithItsOffset) {
  std::string packed = Gzip(KinetoTrace(kKernel));
  packed[packed.size() / 2] ^= '\x55';
  EXPECT_THAT(ErrorOf(packed), testing::AnyOf(HasSubstr("damaged gzip data before byte"),
                                              HasSubstr("no JSON at byte")));
}

#endif

}  // namespace
}  // namespace foretrain

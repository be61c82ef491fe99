#include "app/report/suggestions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json/json.h"
#include "base/units.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

// A step of 100 ms: 60 compute, 30 idle waiting for peers, 10 exposed communication.
ClassSeconds Classes(double compute_s, double idle_s, double exposed_s) {
  ClassSeconds out;
  out.window_s = compute_s + idle_s + exposed_s;
  out.compute_s = compute_s;
  out.idle_s = out.peer_wait_s = idle_s;
  out.exposed_communication_s = exposed_s;
  return out;
}

TriedChange Change(const std::string& options, double step_s, double high_s, ClassSeconds classes) {
  TriedChange out;
  out.of.options = options;
  out.forecast.step_s = step_s;
  out.forecast.interval = {step_s * step_s / high_s, high_s};
  out.forecast.classes = classes;
  out.forecast.device_bytes = 2 * kGiB;
  return out;
}

TriedChanges Tried() {
  TriedChanges out;
  out.as_is.step_s = 0.1;
  out.as_is.interval = {0.09, 0.11};
  out.as_is.classes = Classes(0.06, 0.03, 0.01);
  out.as_is.device_bytes = kGiB;
  out.compared = 20;
  out.simulated = 5;
  out.faster = {Change("--schedule zb-h1", 0.08, 0.09, Classes(0.06, 0.01, 0.01)),
                Change("--recompute none", 0.095, 0.105, Classes(0.055, 0.03, 0.01))};
  return out;
}

StepMetrics Step(double time_s) {
  StepMetrics step;
  step.time_s = time_s;
  step.classes = Classes(0.06, 0.03, 0.01);
  return step;
}

// Position of `part`, which must be there.
std::size_t At(const std::string& text, const std::string& part) {
  EXPECT_THAT(text, HasSubstr(part));
  return text.find(part);
}

TEST(Suggestions, PutsChangesToThePartTheyShortenLargestPartFirst) {
  const std::string text = SuggestionsText(Tried(), Step(0.1), true, true);
  EXPECT_THAT(text, HasSubstr("20 evaluated, 5 simulated"));
  EXPECT_THAT(text,
              HasSubstr("device memory 1.00 GiB, forecast step time 100 ms, measured 100 ms"));
  // 60 % compute before 30 % idle before 10 % communication, which no change shortens.
  EXPECT_LT(At(text, "--recompute none"), At(text, "idle, mostly peer wait"));
  EXPECT_LT(At(text, "idle, mostly peer wait"), At(text, "--schedule zb-h1"));
  EXPECT_LT(At(text, "--schedule zb-h1"), At(text, "none simulated is faster"));
  EXPECT_THAT(text, HasSubstr("20.0 %"));  // 80 of 100 ms
}

TEST(Suggestions, MarksWhatTheForecastsErrorCouldEat) {
  // 105 ms are above the step as it is, 90 are not.
  const std::string text = SuggestionsText(Tried(), Step(0.1), true, true);
  const std::string line = text.substr(At(text, "--recompute none"));
  EXPECT_THAT(line.substr(0, line.find('\n')), HasSubstr("within error"));
  const std::string sure = text.substr(At(text, "--schedule zb-h1"));
  EXPECT_THAT(sure.substr(0, sure.find('\n')), Not(HasSubstr("within error")));
}

TEST(Suggestions, SaysWhenTheForecastOfTheRunItselfWasOff) {
  EXPECT_THAT(SuggestionsText(Tried(), Step(0.1), true, true), Not(HasSubstr("trust")));
  // The forecast is 100 ms and the measurement 200.
  EXPECT_THAT(SuggestionsText(Tried(), Step(0.2), true, true), HasSubstr("-50 % off"));
  EXPECT_THAT(SuggestionsText(Tried(), Step(0.2), false, true), Not(HasSubstr("off")));
}

TEST(Suggestions, SaysWhatThePartsAreOf) {
  StepMetrics unknown = Step(0.1);
  unknown.classes = {};
  EXPECT_THAT(SuggestionsText(Tried(), Step(0.1), true, true), HasSubstr("part of the step"));
  const std::string text = SuggestionsText(Tried(), unknown, true, /*parts=*/false);
  EXPECT_THAT(text, HasSubstr("part of the forecast"));
  EXPECT_THAT(text, HasSubstr("60.0 %"));
}

TEST(Suggestions, SaysWhenNothingIsFaster) {
  TriedChanges tried = Tried();
  tried.faster.clear();
  EXPECT_THAT(SuggestionsText(tried, Step(0.1), true, true), HasSubstr("none is 1 % faster"));
}

TEST(Suggestions, WritesTheSameMetricsAsJson) {
  JsonWriter writer;
  writer.BeginObject();
  WriteSuggestions(writer, Tried());
  const auto json = nlohmann::json::parse(writer.EndObject().Take()).at("suggestions");
  EXPECT_EQ(json.at("as_is_step_time_s"), 0.1);
  const auto& first = json.at("changes").at(0);
  EXPECT_EQ(first.at("change"), "--schedule zb-h1");
  EXPECT_EQ(first.at("part"), "idle");
  EXPECT_NEAR(first.at("saved").get<double>(), 0.2, 1e-9);
  EXPECT_EQ(first.at("within_error"), false);
  EXPECT_EQ(first.at("device_memory_gib"), 2.0);
}

}  // namespace
}  // namespace foretrain

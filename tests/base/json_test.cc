#include "base/json/json.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "tests/base/peak_memory.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Kind = JsonValue::Kind;

JsonValue Parsed(std::string_view text) {
  auto parsed = ParseJson(text, "test.json");
  EXPECT_TRUE(parsed.has_value()) << text << ": " << parsed.error().message;
  return parsed.has_value() ? *std::move(parsed) : JsonValue();
}

Error ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  const auto parsed = ParseJson(text, "test.json", limits);
  EXPECT_FALSE(parsed.has_value()) << text.substr(0, 80);
  return parsed.has_value() ? Error{} : parsed.error();
}

TEST(ParseJson, KeepsKindsOrderAndValues) {
  const JsonValue value =
      Parsed(R"({"b": [1, -2, 2.5, 1e3, true, false, null, "x\u00e9\n"], "a": {}, "": []})");
  ASSERT_EQ(value.kind(), Kind::kObject);
  EXPECT_THAT(value.names(), ElementsAre("b", "a", ""));
  const auto items = value.Find("b")->items();
  ASSERT_EQ(items.size(), 8U);
  EXPECT_EQ(items[0].AsInteger(), 1);
  EXPECT_EQ(items[1].AsInteger(), -2);
  EXPECT_EQ(items[2].AsNumber(), 2.5);
  EXPECT_EQ(items[3].kind(), Kind::kNumber);
  EXPECT_EQ(items[3].AsNumber(), 1000);
  EXPECT_TRUE(items[4].AsBool());
  EXPECT_FALSE(items[5].AsBool());
  EXPECT_TRUE(items[6].is_null());
  EXPECT_EQ(items[7].AsString(), "x\xc3\xa9\n");
  EXPECT_EQ(value.Find("c"), nullptr);
  EXPECT_EQ(Parsed("\xef\xbb\xbf 7").AsInteger(), 7);  // a byte-order mark
}

TEST(ParseJson, KeepsIntegersThatFitAndNumbersThatAreFinite) {
  EXPECT_EQ(Parsed("9223372036854775807").AsInteger(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Parsed("-9223372036854775808").AsInteger(), std::numeric_limits<std::int64_t>::min());
  const JsonValue large = Parsed("9223372036854775808");  // 2^63
  EXPECT_EQ(large.kind(), Kind::kNumber);
  EXPECT_EQ(large.AsNumber(), 9223372036854775808.0);
  EXPECT_EQ(Parsed("-0").AsInteger(), 0);
  EXPECT_EQ(ErrorOf("1e999").code, ErrorCode::kCorruptInput);
}

TEST(ParseJson, NamesLineAndColumnOfWhatIsWrong) {
  const Error error = ErrorOf("{\n  \"a\": 1,\n  \"b\": ]\n}");
  EXPECT_EQ(error.code, ErrorCode::kCorruptInput);
  EXPECT_THAT(error.message, StartsWith("test.json: line 3, column 8: "));
}

TEST(ParseJson, SaysWhatIsWrongAndWhereATextWasCut) {
  EXPECT_EQ(ErrorOf("").message, "test.json: is empty; it holds no JSON");
  EXPECT_EQ(ErrorOf(" \n").message, "test.json: is empty; it holds no JSON");
  // The input itself contains colons and dashes.
  EXPECT_THAT(ErrorOf("{\"a\": \"b: c - d").message,
              AllOf(HasSubstr("cut off here: "), HasSubstr("missing closing quote")));
  EXPECT_THAT(ErrorOf("{\"a\": NaN}").message,
              AllOf(StartsWith("test.json: line 1, column 7: is no JSON: "),
                    HasSubstr("invalid literal"), HasSubstr("N"), Not(HasSubstr("cut off"))));
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const std::string_view bad :
       {std::string_view(""), std::string_view("{"), std::string_view("[1,]"),
        std::string_view("nan"), std::string_view("'a'"), std::string_view("1 2"),
        std::string_view("{\"a\":1,\"a\":2}"), std::string_view("\"\xff\""),
        std::string_view("\"a\0\"", 4), std::string_view("// x\n1"), std::string_view("{\"a\" 1}"),
        std::string_view("\"\\ud800\""), std::string_view("01")}) {
    EXPECT_EQ(ErrorOf(bad).code, ErrorCode::kCorruptInput) << bad;
  }
  EXPECT_THAT(ErrorOf(R"({"x":{"a":1,"b":0,"a":2}})").message, HasSubstr("\"a\" is twice"));
}

TEST(ParseJson, KeepsItsLimits) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(ErrorOf(deep).message, HasSubstr("nested more than 64 deep"));
  Parsed(std::string(64, '[') + std::string(64, ']'));
  EXPECT_THAT(ErrorOf(std::string(65, '[') + std::string(65, ']')).message,
              HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(ErrorOf("[1,2,3]", {.max_values = 3}).message, HasSubstr("more than 3 values"));
  EXPECT_THAT(ErrorOf("\"" + std::string(2000, 'x') + "\"", {.max_bytes = 1024}).message,
              HasSubstr("at most 1.00 KiB"));
  std::string many = "{";
  for (int i = 0; i < 1'000'000; ++i) many += "\"" + std::to_string(i) + "\":1,";
  EXPECT_THAT(ErrorOf(many + "\"\":1}").message, HasSubstr("262144 values"));
}

// Each takes at most two seconds of the processor, and 64 MiB beside four times its size. A text
// above the limit is not read at all, and a file above it neither (file_system_test.cc).
TEST(ParseJson, RefusesHostileTextsInTimeAndLittleMemory) {
  std::string many = "{";
  for (int i = 0; i < 1'000'000; ++i) many += "\"" + std::to_string(i) + "\":1,";
  const std::string texts[] = {
      std::string(100'000, '[') + std::string(100'000, ']'),
      std::string(16 * kMiB, '['),
      many + "\"\":1}",
      "\"" + std::string(17 * kMiB, 'x') + "\"",
      "[1e999]",
      "[" + std::string(4 * kMiB, '9') + "]",
      "{\"a\": 1, \"a\": 2}",
      "\xef\xbb\xbf{\"a\": \"\xff\"}",
  };
  for (const std::string& text : texts) {
    const std::clock_t begin = std::clock();
    ErrorOf(text);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const std::int64_t bytes = CanMeasureMemory() ? PeakGrowthBytes([&] { ErrorOf(text); }) : 0;
    std::printf("%-20.20s %6.1f ms %5.1f MiB\n", text.c_str(), 1e3 * seconds,
                static_cast<double>(bytes) / kMiB);
    EXPECT_LE(seconds, CanMeasureMemory() ? 2.0 : 20.0) << text.substr(0, 20);
    EXPECT_LE(bytes, 64 * kMiB + 4 * std::ssize(text)) << text.substr(0, 20);
  }
}

TEST(JsonFields, ReadsWhatIsThereAndDefaults) {
  const JsonValue value = Parsed(R"({
    "hidden": 64, "lr": 1, "bias": true, "name": "tiny", "kind": "gqa", "sizes": [1, 2],
    "tags": ["a"], "inner": {"tp": 2}, "list": [{"x": 1}, {"x": 2}], "gone": null})");
  constexpr std::array<std::string_view, 2> kKinds{"mha", "gqa"};
  JsonFields fields(value, "model.json");
  EXPECT_EQ(fields.Integer("hidden", 1, 100), 64);
  EXPECT_EQ(fields.Number("lr", 0, 1), 1);
  EXPECT_TRUE(fields.Bool("bias"));
  EXPECT_EQ(fields.String("name"), "tiny");
  EXPECT_EQ(fields.Choice("kind", kKinds), 1U);
  EXPECT_THAT(fields.Integers("sizes", 0, 9), ElementsAre(1, 2));
  EXPECT_THAT(fields.Strings("tags"), ElementsAre("a"));
  JsonFields inner = fields.Object("inner");
  EXPECT_EQ(inner.Integer("tp", 1, 8), 2);
  EXPECT_TRUE(inner.Finish().has_value());
  std::int64_t sum = 0;
  for (JsonFields& item : fields.Objects("list")) {
    sum += item.Integer("x", 0, 9);
    EXPECT_TRUE(item.Finish().has_value());
  }
  EXPECT_EQ(sum, 3);
  EXPECT_FALSE(fields.Has("gone"));
  EXPECT_EQ(fields.IntegerOr("gone", -5, 1, 2), -5);
  EXPECT_EQ(fields.NumberOr("no", 0.25, 0, 1), 0.25);
  EXPECT_TRUE(fields.BoolOr("no", true));
  EXPECT_EQ(fields.StringOr("no", "x"), "x");
  EXPECT_EQ(fields.ChoiceOr("no", 1, kKinds), 1U);
  EXPECT_TRUE(fields.IntegersOr("no", 0, 1).empty());
  EXPECT_FALSE(fields.ObjectOr("no").has_value());
  EXPECT_TRUE(fields.ObjectsOr("no").empty());
  EXPECT_EQ(fields.Any("no"), nullptr);
  EXPECT_TRUE(fields.Finish().has_value());
}

// The error message after reading `text` by `read`.
std::string MessageOf(std::string_view text, void (*read)(JsonFields&)) {
  const JsonValue value = Parsed(text);
  JsonFields fields(value, "f.json");
  read(fields);
  const auto finished = fields.Finish(/*ignore_unknown=*/true);
  EXPECT_FALSE(finished.has_value()) << text;
  EXPECT_EQ(fields.ok(), finished.has_value());
  return finished.has_value() ? "" : finished.error().message;
}

TEST(JsonFields, NamesFileFieldAndRemedy) {
  EXPECT_EQ(MessageOf("{}", [](JsonFields& f) { EXPECT_EQ(f.Integer("hidden", 1, 64), 1); }),
            "f.json: hidden: is missing; it is an integer from 1 to 64");
  EXPECT_EQ(MessageOf(R"({"tp": 0})", [](JsonFields& f) { f.Integer("tp", 1, 64); }),
            "f.json: tp: must be an integer from 1 to 64, is 0");
  EXPECT_EQ(MessageOf(R"({"tp": 8.0})", [](JsonFields& f) { f.IntegerOr("tp", 1, 1, 64); }),
            "f.json: tp: must be an integer from 1 to 64, is 8.0");
  EXPECT_EQ(MessageOf(R"({"tp": "8"})",
                      [](JsonFields& f) { f.Integer("tp", 1, JsonFields::kMaxInteger); }),
            "f.json: tp: must be an integer from 1 up, is \"8\"");
  EXPECT_EQ(MessageOf(R"({"lr": 2})", [](JsonFields& f) { f.Number("lr", 0, 1.5); }),
            "f.json: lr: must be a number from 0 to 1.5, is 2");
  EXPECT_EQ(MessageOf(R"({"a": {"b": [{"c": 1}, {"c": []}]}})",
                      [](JsonFields& f) {
                        JsonFields a = f.Object("a");
                        for (JsonFields& b : a.Objects("b")) b.Bool("c");
                      }),
            "f.json: a.b[0].c: must be true or false, is 1");
  EXPECT_EQ(MessageOf(R"({"s": [1, 2, true]})", [](JsonFields& f) { f.Integers("s", 0, 9); }),
            "f.json: s[2]: must be an integer from 0 to 9, is true");
  EXPECT_EQ(MessageOf(R"({"kind": "gqaa"})",
                      [](JsonFields& f) {
                        constexpr std::array<std::string_view, 2> kKinds{"mha", "gqa"};
                        f.Choice("kind", kKinds);
                      }),
            "f.json: kind: must be one of \"mha\", \"gqa\", is \"gqaa\". Did you mean \"gqa\"?");
  EXPECT_EQ(MessageOf(R"({"name": "abcdef"})", [](JsonFields& f) { f.String("name", 5); }),
            "f.json: name: must be a string of at most 5 bytes, is \"abcdef\"");
  EXPECT_EQ(MessageOf("[]", [](JsonFields& f) { f.Integer("tp", 1, 2); }),
            "f.json: must be an object, is an array");
  EXPECT_EQ(MessageOf(R"({"tp": 3})", [](JsonFields& f) { f.Refuse("tp", "must divide 8 heads"); }),
            "f.json: tp: must divide 8 heads");
}

TEST(JsonFields, KeepsTheFirstErrorAndStaysQuietBelowAMissingObject) {
  EXPECT_EQ(MessageOf(R"({"b": 1})",
                      [](JsonFields& f) {
                        JsonFields a = f.Object("a");
                        EXPECT_EQ(a.Integer("x", 3, 5), 3);
                        EXPECT_FALSE(a.Finish().has_value());
                        f.Bool("b");
                      }),
            "f.json: a: is missing; it is an object");
}

TEST(JsonFields, RefusesUnknownFieldsWithTheNearestKnownName) {
  const JsonValue value = Parsed(R"({"hidden": 1, "layer": 2})");
  JsonFields fields(value, "f.json");
  fields.Integer("hidden", 0, 9);
  fields.IntegerOr("layers", 2, 0, 9);
  const auto finished = fields.Finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(finished.error().message,
            "f.json: layer: is not a known field. Did you mean \"layers\"?");
}

TEST(JsonWriter, WritesOneLineOrIndented) {
  const auto write = [](JsonWriter writer) {
    writer.BeginObject().Field("schema", 1).Field("ok", true).Field("name", "a\"b");
    writer.Name("list").BeginArray().Number(0.1).Number(2).Null().BeginObject().EndObject();
    return writer.EndArray().Name("none").BeginArray().EndArray().EndObject().Take();
  };
  EXPECT_EQ(write(JsonWriter()),
            R"({"schema":1,"ok":true,"name":"a\"b","list":[0.1,2.0,null,{}],"none":[]})");
  EXPECT_EQ(write(JsonWriter(2)), R"({
  "schema": 1,
  "ok": true,
  "name": "a\"b",
  "list": [
    0.1,
    2.0,
    null,
    {}
  ],
  "none": []
})");
}

TEST(JsonWriter, EscapesAndRepairsText) {
  const auto written = [](std::string_view text) { return JsonWriter().String(text).Take(); };
  EXPECT_EQ(written(std::string_view("\\\n\t\x01\0", 5)), R"("\\\n\t\u0001\u0000")");
  EXPECT_EQ(written("\xc3\xa9\xff\xed\xa0\x80"),
            "\"\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(JsonWriter, WritesWhatReadsBackToTheSameBits) {
  for (const double value :
       {0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0 / 3, 1e21, 123456789.0}) {
    const JsonValue back = Parsed(JsonWriter().Number(value).Take());
    ASSERT_EQ(back.kind(), Kind::kNumber);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back.AsNumber()), std::bit_cast<std::uint64_t>(value));
  }
  EXPECT_EQ(JsonWriter().Number(std::nan("")).Take(), "null");
  EXPECT_EQ(JsonWriter().Number(HUGE_VAL).Take(), "null");
  JsonWriter json;
  json.BeginObject().Name("a").BeginArray().Integer(1).Number(2.5).Null().String("x");
  json.BeginObject().Field("b", false).EndObject().EndArray().EndObject();
  EXPECT_EQ(json.Take(), R"({"a":[1,2.5,null,"x",{"b":false}]})");
}

}  // namespace
}  // namespace foretrain

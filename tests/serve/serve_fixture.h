// A server over a FakeGenerator, on a free port.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fake_generator.h"
#include "fake_text.h"
#include "http_client.h"
#include "serve/server.h"

namespace strobe::serve {

class ServeTest : public testing::Test {
 protected:
  void start(ServerOptions options = {}, ServerInfo info = test_info(), bool ready = true) {
    options.http.port = 0;
    server_ = std::make_unique<Server>(std::move(options), std::move(info), generator_, text_);
    port_ = server_->start();
    if (ready) server_->set_ready();
  }
  void TearDown() override {
    if (server_) server_->stop(std::chrono::milliseconds(0));
  }
  // Expects 400 (or `status`) with an error that names `param`; the message.
  std::string refused(std::string_view path, std::string_view body, std::string_view param, int status = 400) {
    const ClientResponse response = request(port_, "POST", path, body);
    EXPECT_EQ(response.status, status) << body << " -> " << response.body;
    const nlohmann::json answer = nlohmann::json::parse(response.body, nullptr, false);
    if (!answer.is_object() || !answer.contains("error")) {
      ADD_FAILURE() << body << " -> " << response.body;
      return "";
    }
    if (param.empty()) {
      EXPECT_TRUE(answer["error"]["param"].is_null()) << response.body;
    } else {
      EXPECT_EQ(answer["error"]["param"], std::string(param)) << body << " -> " << response.body;
    }
    return answer["error"]["message"].get<std::string>();
  }

  FakeGenerator generator_;  // outlives the server
  FakeText text_;
  std::unique_ptr<Server> server_;
  uint16_t port_ = 0;
};

}  // namespace strobe::serve

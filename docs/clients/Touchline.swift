// A client of Touchline's API for iOS 15 and later, with URLSession, async/await and Codable. docs/for-apps.md explains it.

import Foundation
#if canImport(FoundationNetworking) // Linux
import FoundationNetworking
#endif

struct Envelope<T: Decodable>: Decodable { let data: T }
struct Page<T: Decodable, M: Decodable>: Decodable { let data: [T]; let meta: M }
struct Pages: Decodable { let currentPage, lastPage, total: Int }
struct Nothing: Decodable {}
struct Code: Decodable { let expiresIn: Int }
struct User: Decodable { let id: Int; let username: String; let name: String? }
struct Chat: Decodable { let userId, accessToken, deviceId: String; let homeserverUrl: URL? }
struct Login: Decodable { let user: User; let token: String; let matrixCredentials: Chat? }
struct Team: Decodable { let id: Int; let name: String; let logo: String? }
struct Score: Decodable { let home, away: Int }
struct Picks: Decodable { let home, draw, away: Int }
struct Membership: Decodable { let roomId, membership: String }
struct Prediction: Decodable {
    let id, eventId: Int, prediction: String, scorePrediction: Score?, confidence: Int
    let pointsEarned: Int?, reason, note: String?
}
struct Match: Decodable {
    let id: Int, homeTeam, awayTeam: Team, startTime: Date, status: String, homeScore, awayScore: Int?
    let chatRoomId: String, myPrediction: Prediction?, picks: Picks?
}
struct Row: Decodable { let rank: Int, user: User, points, exact: Int, moved: Int? }
struct Board: Decodable { let me: Row?, total: Int, asOf: Date?, nextCursor: String? }
struct Problem: Decodable { var message, code: String?, errors: [String: [String]]?, retryAfter: Double? }

/// An error response. Show the message to the user; decide by `problem.code`.
struct TouchlineError: LocalizedError {
    let status: Int, problem: Problem
    var errorDescription: String? { problem.message ?? "Something went wrong." }
}

actor Touchline {
    private let url: String
    private(set) var token: String?
    private let session: URLSession
    private let decoder: JSONDecoder

    init(url: String, token: String? = nil) {
        self.url = url
        self.token = token
        let configuration = URLSessionConfiguration.default
        configuration.timeoutIntervalForRequest = 15
        // The cache sends If-None-Match by itself.
        configuration.urlCache = URLCache(memoryCapacity: 2_000_000, diskCapacity: 20_000_000, diskPath: "touchline")
        session = URLSession(configuration: configuration)
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        decoder.dateDecodingStrategy = .iso8601
        self.decoder = decoder
    }

    @discardableResult
    func requestCode(phone: String) async throws -> Code {
        // A repeated request would send a second SMS and invalidate the first code.
        let sent: Envelope<Code> = try await call("POST", "/api/code/request", body: ["phone": phone], repeatable: false)
        return sent.data
    }

    @discardableResult
    func verify(phone: String, code: String) async throws -> Login {
        let login: Envelope<Login> = try await call("POST", "/api/code/verify", body: ["phone": phone, "code": code])
        token = login.data.token
        session.configuration.urlCache?.removeAllCachedResponses()
        return login.data
    }

    func chooseUsername(_ username: String) async throws {
        let _: Nothing = try await call("POST", "/api/auth/update-user-info", body: ["username": username])
    }

    func matches(_ query: [String: String] = [:]) async throws -> Page<Match, Pages> {
        try await call("GET", "/api/auth/events", query: query.merging(["include": "my_prediction,picks"]) { $1 })
    }

    func match(_ id: Int) async throws -> Match {
        let found: Envelope<Match> = try await call("GET", "/api/auth/events/\(id)", query: ["include": "my_prediction,picks"])
        return found.data
    }

    @discardableResult
    func predict(match id: Int, _ prediction: String, score: Score? = nil) async throws -> Prediction {
        var body: [String: Any] = ["event_id": id, "prediction": prediction]
        if let score { body["score_prediction"] = ["home": score.home, "away": score.away] }
        let saved: Envelope<Prediction> = try await call("POST", "/api/auth/predictions", body: body)
        return saved.data
    }

    /// Returns the caller's prediction when it is settled. A void match is settled without points.
    func waitForPoints(match id: Int, everySeconds: UInt64 = 30) async throws -> Prediction? {
        while true {
            let prediction = try await match(id).myPrediction
            if prediction == nil || prediction?.reason != nil { return prediction }
            try await Task.sleep(nanoseconds: everySeconds * 1_000_000_000)
        }
    }

    func leaderboardAroundMe(_ query: [String: String] = [:]) async throws -> Page<Row, Board> {
        try await call("GET", "/api/auth/leaderboards", query: query.merging(["around": "me"]) { $1 })
    }

    @discardableResult
    func acceptInviteLink(_ code: String) async throws -> Membership {
        let code = code.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        let joined: Envelope<Membership> = try await call("POST", "/api/auth/invite-links/\(code)/accept")
        return joined.data
    }

    /// Sends a request. Repeats it after a temporary error, if that is harmless.
    private func call<T: Decodable>(
        _ method: String, _ path: String, query: [String: String] = [:], body: [String: Any] = [:], repeatable: Bool = true
    ) async throws -> T {
        guard var address = URLComponents(string: url + path) else { throw URLError(.badURL) }
        // Sorted, because the address is the key of the cache.
        let items = query.sorted { $0.key < $1.key }.map { URLQueryItem(name: $0.key, value: $0.value) }
        if !items.isEmpty { address.queryItems = items }
        guard let target = address.url else { throw URLError(.badURL) }
        var request = URLRequest(url: target)
        request.httpMethod = method
        if method != "GET" { request.httpBody = try JSONSerialization.data(withJSONObject: body) }
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        if let token { request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization") }
        var attempt = 0
        while true {
            let isFinal = attempt == 3 || !repeatable
            var wait = 0.0
            do {
                return try await send(request)
            } catch let error as TouchlineError {
                if error.problem.code?.hasPrefix("token_") == true { token = nil } // Show the login.
                let isTemporary = [429, 500, 502, 503, 504].contains(error.status)
                wait = error.problem.retryAfter ?? 0
                // If the service asks for a longer wait, the user should know and decide.
                if isFinal || !isTemporary || wait > 10 { throw error }
            } catch let error as URLError { // No response.
                if isFinal || error.code == .cancelled { throw error }
            }
            let pause = wait + Double.random(in: 0...0.5) * pow(2, Double(attempt))
            try await Task.sleep(nanoseconds: UInt64(pause * 1_000_000_000))
            attempt += 1
        }
    }

    private func send<T: Decodable>(_ request: URLRequest) async throws -> T {
        let (data, response) = try await session.data(for: request)
        let status = (response as? HTTPURLResponse)?.statusCode ?? 0
        guard (200..<300).contains(status) else {
            throw TouchlineError(status: status, problem: (try? decoder.decode(Problem.self, from: data)) ?? Problem())
        }
        return try decoder.decode(T.self, from: data)
    }
}
